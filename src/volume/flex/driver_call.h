// The calls of the Flexvolume protocol: each runs the driver's executable once.
//
//   before ─▶ run, with a deadline, in a process group of its own ─▶ read the reply ─▶ after
//
// The codes tell the outcome of a call:
//   UNIMPLEMENTED       the driver does not support it: the caller does what Kubernetes does in its
//                       place. This is remembered for that version, until the next Init
//   INTERNAL            the driver answers that it failed: nothing happened
//   FAILED_PRECONDITION the executable cannot be run
//   UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED   the outcome is unknown
// Options and other arguments never appear in logs or errors (docs/adr).
//
// All calls use one executable of a driver; each call states which version of it is run.
// Thread-safe; the exec is borrowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/mounts/mount_paths.h"
#include "platform/processes/exec.h"
#include "volume/flex/driver_options.h"
#include "volume/flex/driver_reply.h"
#include "volume/flex/driver_version.h"

namespace berth::volume {

enum class DriverCommand {
  kInit,
  kGetVolumeName,
  kAttach,
  kDetach,
  kWaitForAttach,
  kIsAttached,
  kMountDevice,
  kUnmountDevice,
  kMount,
  kUnmount,
  kExpandVolume,
  kExpandFs,
};
// "init", ...
std::string_view NameOf(DriverCommand command);

class DriverCalls {
 public:
  // Deadlines. Kubernetes has only one, ten minutes for waitforattach. Calls that make or grow file
  // systems get as much.
  struct Deadlines {
    std::chrono::milliseconds init{std::chrono::seconds(30)};
    std::chrono::milliseconds plain{std::chrono::minutes(2)};
    std::chrono::milliseconds slow{std::chrono::minutes(10)};
  };
  explicit DriverCalls(platform::Exec& exec) : DriverCalls(exec, Deadlines()) {}
  DriverCalls(platform::Exec& exec, const Deadlines& deadlines);

  // Calls init, and forgets which calls were not supported. INTERNAL: init failed, or the driver
  // does not support it.
  base::StatusOr<DriverCapabilities> Init(const DriverVersion& version);

  // For a driver that attaches, Kubernetes makes this call before all other calls for a volume.
  // Kubernetes ignores the name in the answer and uses the volume's own, but a failure stops it.
  base::StatusOr<std::string> GetVolumeName(const DriverVersion& version,
                                            const DriverOptions& options);
  // Returns the device on the node, which may be "".
  base::StatusOr<std::string> Attach(const DriverVersion& version, const DriverOptions& options,
                                     const api::NodeName& node);
  base::Status Detach(const DriverVersion& version, const api::VolumeName& volume,
                      const api::NodeName& node);
  // Returns the device that must be used from now on; `device` if the driver names none.
  base::StatusOr<std::string> WaitForAttach(const DriverVersion& version, const std::string& device,
                                            const DriverOptions& options);
  base::StatusOr<bool> IsAttached(const DriverVersion& version, const DriverOptions& options,
                                  const api::NodeName& node);
  base::Status MountDevice(const DriverVersion& version, const platform::StagingPath& folder,
                           const std::string& device, const DriverOptions& options);
  base::Status UnmountDevice(const DriverVersion& version, const platform::StagingPath& folder);
  // GetVolumeName for callers that use the volume's own name: OK if it is not supported.
  base::Status CheckVolumeName(const DriverVersion& version, const DriverOptions& options);
  base::Status Mount(const DriverVersion& version, const platform::TargetPath& folder,
                     const DriverOptions& options);
  base::Status Unmount(const DriverVersion& version, const platform::TargetPath& folder);

  struct Growth {
    std::string folder;  // where the device is mounted
    int64_t new_bytes = 0;
    int64_t old_bytes = 0;
  };
  base::Status ExpandVolume(const DriverVersion& version, const DriverOptions& options,
                            const Growth& growth);
  base::Status ExpandFs(const DriverVersion& version, const DriverOptions& options,
                        const std::string& device, const Growth& growth);

  // Ends the running calls. They and all later calls fail with CANCELLED.
  void CancelCalls();

 private:
  base::StatusOr<DriverReply> CallDriver(const DriverVersion& version, DriverCommand command,
                                         std::vector<std::string> arguments,
                                         const SecretWords& secrets = {});
  base::StatusOr<DriverReply> RunDriver(const DriverVersion& version, DriverCommand command,
                                        std::vector<std::string> arguments,
                                        const SecretWords& secrets);
  std::chrono::milliseconds DeadlineOf(DriverCommand command) const;
  bool IsUnsupported(const DriverVersion& version, DriverCommand command) const;

  platform::Exec& exec_;
  const Deadlines deadlines_;
  std::stop_source cancel_;
  mutable base::Mutex mutex_;
  // By version and command.
  std::set<std::pair<std::string, DriverCommand>> unsupported_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
