// State that lives from run to run, as a caller reads and writes it.

#ifndef OFFLOAD_LIB_RUNTIME_STATES_H
#define OFFLOAD_LIB_RUNTIME_STATES_H

#include "Feeds.h"
#include "Storage.h"

#include <map>
#include <string>
#include <vector>

namespace offload::rt {

class States {
public:
  /// First values are in `storage` already; those that the launching thread
  /// holds are taken from their defaults, or zeros.
  States(const Program &program, Storage &storage, Device &device);

  std::vector<ValueInfo> list() const;
  /// Both need empty queues. Throw Error: unknown name, wrong type or size.
  Tensor read(const std::string &name) const;
  void write(const std::string &name, const Tensor &value);

  /// All of them, to go back to.
  std::map<std::string, Tensor> readAll() const;
  void writeAll(const std::map<std::string, Tensor> &values);

  /// Of a state that the launching thread holds.
  HostValuePointer launchValue(uint32_t input) const {
    return launched.at(input);
  }
  void setLaunchValue(uint32_t input, HostValuePointer value) {
    launched[input] = std::move(value);
  }

private:
  uint32_t find(const std::string &name) const;

  const Program &program;
  Storage &storage;
  Device &device;
  std::vector<uint32_t> inputs; // states with bytes
  std::map<uint32_t, HostValuePointer> launched;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_STATES_H
