// Weights as a caller reads and replaces them, under their source's names.

#ifndef OFFLOAD_LIB_RUNTIME_WEIGHTS_H
#define OFFLOAD_LIB_RUNTIME_WEIGHTS_H

#include "States.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace offload::rt {

class Weights {
public:
  /// `bound`: sizes at the bound.
  Weights(const Program &program, const Binding &bound, Shapes &shapes,
          Storage &storage, States &states, Device &device);

  std::vector<ValueInfo> list() const;
  /// Both need empty queues. Throw Error: see Session.
  Tensor read(const std::string &name) const;
  void write(const std::string &name, const Tensor &value);

private:
  uint32_t find(const std::string &name) const;
  std::string whyNot(const std::string &name) const;
  Tensor readConstant(uint32_t constant) const;
  void writeConstant(uint32_t constant, const Tensor &value);

  const Program &program;
  const Binding &bound;
  Shapes &shapes;
  Storage &storage;
  States &states;
  Device &device;
  std::vector<uint32_t> weights;                  // in the file's order
  std::map<uint32_t, std::set<uint32_t>> derived; // what each was folded to
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_WEIGHTS_H
