// The conformance kit for authors of Flexvolume drivers: it runs each call of a driver on a scratch
// volume, and each finding says what is wrong.
//
//   init ─ an unknown command ─ getvolumename
//     ├▶ attach, isattached, waitforattach          of drivers that attach
//     │   └▶ mountdevice ─▶ mount ─ data ─ expand ─ unmount ─▶ unmountdevice ─▶ detach
//     │        each runs twice, as after a crash, then once to find the data and once read-only
//     └▶ mount without the volume's options; unmount where nothing is mounted
//   processes, mounts and loop devices that are left
//
// If the driver does not support a call, the kit does what Kubernetes does in its place. It needs
// root, and the driver must not change meanwhile.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/flex/check/finding.h"

namespace berth::volume {

struct DriverCheckOptions {
  std::string executable;
  std::string driver;  // "vendor/driver"; empty: by the executable's folder and name
  // The volume's options. "{scratch}" stands for a folder that exists during the test.
  std::map<std::string, std::string> options;
  std::map<std::string, std::string> secrets;
  std::string fs_type;
  std::string node = "node-a";
  bool keeps_data = true;            // false: a volume must be empty each time
  std::string scratch = "/var/tmp";  // where the scratch volume is made
  std::chrono::milliseconds deadline{std::chrono::seconds(30)};  // of each call
  std::chrono::milliseconds slow_init{std::chrono::seconds(2)};  // a longer `init` is a finding
};

struct DriverCheckReport {
  std::vector<Finding> findings;
  std::vector<std::string> calls;  // that the driver supports, in the order of their first use
};

// Checks a driver. FAILED_PRECONDITION, NOT_FOUND: the executable is missing or cannot be run.
// PERMISSION_DENIED: this process is not root. Other errors: the scratch folder cannot be made.
base::StatusOr<DriverCheckReport> CheckDriver(platform::Exec& exec,
                                              const DriverCheckOptions& options);

// Returns "vendor/driver" for .../vendor~driver/driver, and for other paths the file's name.
std::string DriverNameOf(const std::string& executable);

}  // namespace berth::volume
