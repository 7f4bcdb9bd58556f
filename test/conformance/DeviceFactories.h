// The devices that the conformance suite runs on: one row for each.

#ifndef OFFLOAD_TEST_CONFORMANCE_DEVICEFACTORIES_H
#define OFFLOAD_TEST_CONFORMANCE_DEVICEFACTORIES_H

#include "offload/Runtime/Device.h"

#include <memory>
#include <string>
#include <vector>

namespace offload::rt {

struct DeviceFactory {
  std::string name;
  std::unique_ptr<Device> (*make)();
};

/// Every kind of device that this machine has.
std::vector<DeviceFactory> deviceFactories();

} // namespace offload::rt

#endif // OFFLOAD_TEST_CONFORMANCE_DEVICEFACTORIES_H
