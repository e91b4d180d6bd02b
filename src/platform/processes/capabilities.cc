#include "platform/processes/capabilities.h"

#include <charconv>
#include <cstdint>

#include "platform/files/durable_file.h"

namespace berth::platform {

bool HasCapabilityIn(std::string_view status, int capability) {
  constexpr std::string_view kName = "\nCapEff:\t";
  const size_t at = status.find(kName);
  if (at == status.npos) return false;
  const std::string_view number = status.substr(at + kName.size());
  uint64_t effective = 0;
  std::from_chars(number.data(), number.data() + number.size(), effective, 16);
  return (effective >> capability & 1) != 0;
}

bool HasCapability(int capability) {
  const auto status = ReadFile("/proc/self/status");
  return status.ok() && HasCapabilityIn(*status, capability);
}

}  // namespace berth::platform
