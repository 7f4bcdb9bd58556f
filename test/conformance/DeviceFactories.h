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
  /// Tasks of all queues but the host's run where they are launched, so only a
  /// task of the host queue can fail after something behind it was issued.
  bool runsAtIssue = false;
};

/// The devices that this program judges: DeviceFactories.cpp names the host,
/// CudaFactories.cpp a card.
std::vector<DeviceFactory> deviceFactories();

} // namespace offload::rt

#endif // OFFLOAD_TEST_CONFORMANCE_DEVICEFACTORIES_H
