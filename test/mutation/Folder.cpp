// A temporary folder.
//
// In:  the system's place for temporary files.
// Out: a folder of one owner, removed with it.
// Not: what is written there.

#include "Schedules.h"

#include "offload/Runtime/Tensor.h"

#include <cstdlib>

namespace offload::mutation {

Folder::Folder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "offload-mutation-XXXXXX")
          .string();
  if (!mkdtemp(pattern.data()))
    throw rt::Error("no temporary folder at " + pattern);
  path = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace offload::mutation
