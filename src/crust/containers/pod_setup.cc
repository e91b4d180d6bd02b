#include "crust/containers/pod_setup.h"

#include <algorithm>
#include <charconv>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/containers/bundle_config.h"
#include "platform/files/durable_file.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

// Annotations that containerd's CRI plug-in sets on the sandbox's container
// (PodSandboxConfig.linux.resources and overhead of the CRI).
constexpr const char* kMemory = "io.kubernetes.cri.sandbox-memory";
constexpr const char* kQuota = "io.kubernetes.cri.sandbox-cpu-quota";
constexpr const char* kPeriod = "io.kubernetes.cri.sandbox-cpu-period";

// 0: there is none, or it is no limit.
int64_t FindLimit(const Json& config, const char* annotation) {
  const std::string text = json::String(config, {"annotations", annotation});
  int64_t limit = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), limit);
  return read.ec == std::errc() && read.ptr == text.data() + text.size()
             ? std::max<int64_t>(limit, 0)
             : 0;
}

}  // namespace

StatusOr<PodSetup> ReadPodSetup(const Json& config) {
  PodSetup setup{.hostname = json::String(config, {"hostname"}),
                 .memory_bytes = FindLimit(config, kMemory)};
  for (const auto& [name, value] : json::Map(config, {"linux", "sysctl"}).items()) {
    if (value.is_string()) setup.sysctls.push_back(name + "=" + value.get<std::string>());
  }
  for (const Json& entry : json::Array(config, {"linux", "namespaces"})) {
    if (json::String(entry, {"type"}) == "network") setup.network = json::String(entry, {"path"});
    if (json::String(entry, {"type"}) == "user") {
      return Error(StatusCode::kUnimplemented,
                   "a sandbox that is a virtual machine has no user namespaces (hostUsers: false)");
    }
  }
  const int64_t quota = FindLimit(config, kQuota), period = FindLimit(config, kPeriod);
  constexpr int64_t kMostQuota = int64_t{1} << 40;
  if (quota > 0 && period > 0) setup.cpu_percent = std::min(quota, kMostQuota) * 100 / period;
  return setup;
}

StatusOr<PodSetup> ReadPodSetupOf(const std::string& bundle) {
  ASSIGN_OR_RETURN(const std::string text,
                   platform::ReadFile(bundle + "/config.json", base::ipc::crust::kLargestConfig));
  ASSIGN_OR_RETURN(const Json config, ReadConfig(text));
  return ReadPodSetup(config);
}

}  // namespace berth::crust
