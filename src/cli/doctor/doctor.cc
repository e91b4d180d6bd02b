#include "cli/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>

#include "cli/output.h"

namespace berth::cli {
namespace doctor {
namespace {

std::string_view ToSign(Verdict verdict) {
  return verdict == Verdict::kOk ? "✓" : verdict == Verdict::kBad ? "✗" : "·";
}
std::string_view ToWord(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kBad ? "bad" : "note";
}

}  // namespace

std::string RenderText(const Findings& findings) {
  std::string out;
  std::string_view area;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      out += fmt::format("{}{}\n", area.empty() ? "" : "\n", finding.area);
      area = finding.area;
    }
    out += fmt::format("  {} {:<20} {}\n", ToSign(finding.verdict), finding.name, finding.text);
    if (!finding.advice.empty()) out += fmt::format("    → {}\n", finding.advice);
  }
  const auto bad = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::kBad;
  });
  out += bad == 0 ? "\nNo problems were found.\n"
                  : fmt::format("\n{} found.\n",
                                bad == 1 ? "1 problem was" : fmt::format("{} problems were", bad));
  return out;
}

base::Json RenderJson(const Findings& findings) {
  base::Json list = base::Json::array();
  for (const Finding& finding : findings) {
    base::Json item = {{"area", finding.area},
                       {"name", finding.name},
                       {"verdict", ToWord(finding.verdict)},
                       {"text", finding.text}};
    if (!finding.advice.empty()) item["advice"] = finding.advice;
    list.push_back(std::move(item));
  }
  return {{"healthy", IsHealthy(findings)}, {"findings", std::move(list)}};
}

bool IsHealthy(const Findings& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.verdict == Verdict::kBad; });
}

}  // namespace doctor

base::StatusOr<bool> RunDoctor(const DoctorOptions& options, kube::Client* client,
                               const base::Status& why_no_api, const base::Clock& clock) {
  if (!options.output.empty() && options.output != "json") {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "-o '{}' is unknown; the only known format is json", options.output);
  }
  const doctor::Machine machine{.root = "", .is_root = geteuid() == 0};
  doctor::Findings findings;
  doctor::CheckKernel(machine, findings);
  doctor::CheckCapabilities(machine, findings);
  doctor::CheckPropagation(machine, options.data_folder, findings);
  doctor::CheckRuntime(machine, options.runtime_endpoint, findings);
  const std::string kubelet_folder =
      options.kubelet_folder.empty() ? options.data_folder + "/kubelet" : options.kubelet_folder;
  doctor::CheckMountPods(machine, kubelet_folder, options.runtime_endpoint, findings);
  doctor::CheckFolders(machine, options.data_folder, findings);
  doctor::CheckDisk(options.data_folder, findings);
  doctor::CheckClock(client, clock.Now(), findings);
  doctor::CheckCertificates(options.data_folder, clock.Now(), findings);
  if (client != nullptr) {
    doctor::CheckApi(*client, findings);
    doctor::CheckMountPodRivals(*client, findings);
  } else {
    findings.push_back({"api", "running Berth", doctor::Verdict::kNote,
                        std::string(base::Message(why_no_api)), ""});
  }
  Print(options.output == "json" ? doctor::RenderJson(findings).dump(2) + "\n"
                                 : doctor::RenderText(findings));
  return doctor::IsHealthy(findings);
}

}  // namespace berth::cli
