// Devices by name.
//
// In:  "host", "cuda:N".
// Out: the device, or one error.

#include "offload/Runtime/Device.h"

#include <charconv>

namespace offload::rt {

std::unique_ptr<Device> makeDevice(const std::string &name) {
  if (name == "host")
    return makeHostDevice();
  constexpr std::string_view kCuda = "cuda:";
  int index = -1;
  if (name.rfind(kCuda, 0) == 0) {
    const char *first = name.data() + kCuda.size();
    const char *last = name.data() + name.size();
    auto [end, error] = std::from_chars(first, last, index);
    if (error == std::errc() && end == last && index >= 0)
      return makeCudaDevice(index);
  }
  throw Error("device '" + name + "' is unknown; use host or cuda:N");
}

} // namespace offload::rt
