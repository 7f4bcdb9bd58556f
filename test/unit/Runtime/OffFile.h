// A test that reads or runs `.off` files made from text.

#ifndef OFFLOAD_TEST_UNIT_RUNTIME_OFFFILE_H
#define OFFLOAD_TEST_UNIT_RUNTIME_OFFFILE_H

#include "OffText.h"

#include "offload/Runtime/Program.h"
#include "offload/Runtime/Session.h"

#include <memory>
#include <string>

namespace offload::rt {

class OffFile : public testing::Test {
protected:
  TestFolder folder;
  Program read(const std::string &text) {
    return Program::read(writeText(text, folder / "m.off"), {});
  }
  std::unique_ptr<Session> load(const std::string &text,
                                const SessionOptions &options = {}) {
    return Session::load(writeText(text, folder / "m.off"), options);
  }
};

} // namespace offload::rt

#endif // OFFLOAD_TEST_UNIT_RUNTIME_OFFFILE_H
