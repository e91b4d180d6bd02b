// `berth doctor`: checks whether this machine can run Berth, and whether a running Berth is
// healthy.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/doctor/check.h"

namespace berth::cli {

struct DoctorOptions {
  std::string data_folder;
  std::string kubelet_folder;  // "": in the data folder, as in standalone
  std::string runtime_endpoint = "unix:///run/containerd/containerd.sock";
  std::string output;  // "" or "json"
};

// Prints the findings. `client` is null if no API is known, and `why_no_api` then says why. Returns
// true if no fault was found. INVALID_ARGUMENT: the output format is unknown.
base::StatusOr<bool> RunDoctor(const DoctorOptions& options, kube::Client* client,
                               const base::Status& why_no_api, const base::Clock& clock);

namespace doctor {
std::string RenderText(const Findings& findings);
base::Json RenderJson(const Findings& findings);
// Whether no finding is a fault.
bool IsHealthy(const Findings& findings);
}  // namespace doctor

}  // namespace berth::cli
