// The device that every machine has.

#include "DeviceFactories.h"

namespace offload::rt {

std::vector<DeviceFactory> deviceFactories() {
  return {{"host", makeHostDevice}};
}

} // namespace offload::rt
