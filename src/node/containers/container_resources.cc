#include "node/containers/container_resources.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "api/quantity.h"

namespace berth::node {

namespace {

using api::Quantity;
using base::Json;
using base::StatusCode;
using base::StatusOr;

constexpr int64_t kCpuPeriod = 100'000;  // µs
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262'144;
constexpr int64_t kMinQuota = 1'000;  // µs: the kernel's minimum

// A quantity as text; in JSON it may be a string or a number.
std::string QuantityText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

// A container's resource; `which` is "requests" or "limits". A request that is not set is the
// limit, as in the API's defaults. nullopt: it is not set, or malformed.
std::optional<Quantity> FindQuantity(const api::Container& container, const char* which,
                                     const std::string& name) {
  const Json* value = base::json::Find(container.json(), {"resources", which, name});
  if (value == nullptr && std::string_view(which) == "requests") {
    value = base::json::Find(container.json(), {"resources", "limits", name});
  }
  if (value == nullptr) return std::nullopt;
  const auto quantity = Quantity::Parse(QuantityText(*value));
  if (!quantity.ok()) return std::nullopt;
  return *quantity;
}

int64_t ComputeOomScore(const api::Pod& pod, const api::Container& container,
                        int64_t memory_capacity) {
  constexpr int64_t kCriticalPriority = 2'000'000'000;
  const std::string qos = ComputeQosClass(pod);
  if (qos == "Guaranteed" || pod.Int({"spec", "priority"}) >= kCriticalPriority) return -997;
  if (qos == "BestEffort") return 1000;
  const auto request = FindQuantity(container, "requests", "memory");
  const int64_t bytes = request.has_value() ? request->value() : 0;
  if (memory_capacity <= 0) return 999;
  const auto used = static_cast<int64_t>(__int128{1000} * bytes / memory_capacity);
  // The score is above that of Guaranteed pods and below that of BestEffort pods.
  return std::clamp<int64_t>(1000 - used, 3, 999);
}

}  // namespace

std::string ComputeQosClass(const api::Pod& pod) {
  bool any = false;
  bool guaranteed = true;
  auto containers = pod.containers();
  for (api::Container& init : pod.init_containers()) containers.push_back(std::move(init));
  for (const api::Container& container : containers) {
    for (const char* name : {"cpu", "memory"}) {
      const auto limit = FindQuantity(container, "limits", name);
      const auto request = FindQuantity(container, "requests", name);
      const bool has_limit = limit.has_value() && limit->milli_value() > 0;
      const bool has_request = request.has_value() && request->milli_value() > 0;
      any = any || has_limit || has_request;
      if (!has_limit || !has_request || *limit != *request) guaranteed = false;
    }
  }
  if (!any) return "BestEffort";
  return guaranteed ? "Guaranteed" : "Burstable";
}

rpc::cri::LinuxContainerResources MakeContainerResources(const api::Pod& pod,
                                                         const api::Container& container,
                                                         int64_t memory_capacity) {
  rpc::cri::LinuxContainerResources out;
  const auto cpu_request = FindQuantity(container, "requests", "cpu");
  const int64_t milli = cpu_request.has_value() ? cpu_request->milli_value() : 0;
  out.set_cpu_shares(milli <= 0 ? kMinShares
                                : std::clamp(milli * 1024 / 1000, kMinShares, kMaxShares));
  if (const auto limit = FindQuantity(container, "limits", "cpu");
      limit.has_value() && limit->milli_value() > 0) {
    out.set_cpu_period(kCpuPeriod);
    out.set_cpu_quota(std::max(limit->milli_value() * kCpuPeriod / 1000, kMinQuota));
  }
  if (const auto limit = FindQuantity(container, "limits", "memory"); limit.has_value()) {
    out.set_memory_limit_in_bytes(std::max<int64_t>(limit->value(), 0));
  }
  out.set_oom_score_adj(ComputeOomScore(pod, container, memory_capacity));
  return out;
}

StatusOr<std::string> ComputeResourceField(const api::Container& container,
                                           const std::string& resource, const std::string& divisor,
                                           int64_t cpu_capacity_milli, int64_t memory_capacity) {
  static const std::set<std::string> kNames = {"cpu", "memory", "ephemeral-storage"};
  const size_t dot = resource.find('.');
  const std::string which = resource.substr(0, dot);
  const std::string name = dot == std::string::npos ? "" : resource.substr(dot + 1);
  if ((which != "limits" && which != "requests") || !kNames.contains(name)) {
    return base::Error(StatusCode::kInvalidArgument, "unsupported container resource: {}",
                       resource);
  }
  const auto unit = Quantity::Parse(divisor.empty() || divisor == "0" ? "1" : divisor);
  if (!unit.ok() || unit->milli_value() <= 0) {
    return base::Error(StatusCode::kInvalidArgument, "resource '{}': divisor '{}' is not valid",
                       resource, divisor);
  }
  __int128 milli = 0;
  if (const auto value = FindQuantity(container, which.c_str(), name); value.has_value()) {
    milli = name == "cpu" ? __int128{value->milli_value()} : __int128{value->value()} * 1000;
  } else if (which == "limits") {
    milli = name == "cpu" ? __int128{cpu_capacity_milli} : __int128{memory_capacity} * 1000;
  }
  const __int128 per = unit->milli_value();
  return fmt::format("{}", static_cast<int64_t>((milli + per - 1) / per));
}

int64_t ReadMachineMemory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t ReadMachineCpuMilli() { return 1000 * std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace berth::node
