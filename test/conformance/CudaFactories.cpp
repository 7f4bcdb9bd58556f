// The first card of a machine that has one.

#include "DeviceFactories.h"

namespace offload::rt {

std::vector<DeviceFactory> deviceFactories() {
  return {{"cuda", [] { return makeCudaDevice(0); }, true}};
}

} // namespace offload::rt
