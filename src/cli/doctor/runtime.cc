#include <filesystem>

#include "cli/doctor/check.h"
#include "rpc/cri_client.h"

namespace berth::cli::doctor {
namespace {

constexpr std::chrono::milliseconds kTimeout{3000};

// Reports the runtime's conditions, such as NetworkReady, with their reasons.
void CheckNetwork(rpc::CriClient& cri, Findings& out) {
  const auto status = cri.Status({}, kTimeout);
  if (!status.ok()) {
    out.push_back({"runtime", "status", Verdict::kBad, std::string(base::Message(status.status())),
                   "see the runtime's log"});
    return;
  }
  for (const auto& condition : status->status().conditions()) {
    const bool network = condition.type() == "NetworkReady";
    Finding finding{"runtime", network ? "pod network (CNI)" : condition.type(),
                    condition.status() ? Verdict::kOk : Verdict::kBad,
                    condition.status()
                        ? "ready"
                        : fmt::format("{}: {}", condition.reason(), condition.message()),
                    ""};
    if (!condition.status()) {
      finding.advice = network ? "install containernetworking-plugins and a *.conflist in "
                                 "/etc/cni/net.d; until then only pods with hostNetwork start"
                               : "see the runtime's log";
    }
    out.push_back(std::move(finding));
  }
}

}  // namespace

void CheckRuntime(const Machine& machine, const std::string& endpoint, Findings& out) {
  const auto cri = rpc::CriClient::New(endpoint);
  if (!cri.ok()) {
    out.push_back({"runtime", "endpoint", Verdict::kBad, std::string(base::Message(cri.status())),
                   "name the socket with --container-runtime-endpoint"});
    return;
  }
  const auto version = (*cri)->Version({}, kTimeout);
  if (version.ok()) {
    out.push_back(
        {"runtime", "CRI", Verdict::kOk,
         fmt::format("{} {} (CRI {}) at {}", version->runtime_name(), version->runtime_version(),
                     version->runtime_api_version(), endpoint),
         ""});
    CheckNetwork(**cri, out);
    return;
  }
  const std::string why(base::Message(version.status()));
  if (!machine.is_root) {
    out.push_back({"runtime", "CRI", Verdict::kNote, "only root may ask: " + why, ""});
    return;
  }
  out.push_back({"runtime", "CRI", Verdict::kBad, why,
                 "start containerd, or name its socket with --container-runtime-endpoint. Without "
                 "one, claims and 'berth mount' work and pods wait"});
}

}  // namespace berth::cli::doctor
