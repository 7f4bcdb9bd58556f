// Host memory of the constants that are copied to the device.

#ifndef OFFLOAD_LIB_RUNTIME_CONSTANTMEMORY_H
#define OFFLOAD_LIB_RUNTIME_CONSTANTMEMORY_H

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Program.h"

#include <memory>
#include <vector>

namespace offload::rt {

class ConstantMemory {
public:
  /// Allocates and loads; blocks. May run beside anything that neither changes
  /// the program nor ends the device. Throws Error.
  ConstantMemory(const Program &program, Device &device);

  /// Where the constant lies; null for one that no copy reads.
  std::byte *address(uint32_t value) const;
  int64_t sizeBytes() const { return memory->sizeBytes(); }

private:
  void layOut(const Program &program, bool groups);
  void findCuts(const Program &program);
  void load(const Program &program, Device &device);

  struct Place {
    int64_t offset = -1, bytes = 0;
  };
  std::vector<Place> places; // by value
  int64_t end = 0;
  std::vector<int64_t> cuts; // no copy goes across these
  std::unique_ptr<Memory> memory;
};

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CONSTANTMEMORY_H
