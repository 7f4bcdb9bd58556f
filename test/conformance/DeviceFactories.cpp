// Names the devices of this machine. A new kind of device is one more row.

#include "DeviceFactories.h"

namespace offload::rt {

std::vector<DeviceFactory> deviceFactories() {
  return {{"host", makeHostDevice}};
}

} // namespace offload::rt
