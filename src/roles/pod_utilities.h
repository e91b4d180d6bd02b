// The utilities of a process that is no node agent: the block operator of `berth controller`,
// `berth csi-driver`, and the role `utilities`. They run in the mount pods of this machine, by the
// rules by which a node agent runs its own (volume/exec/router.h).
//
// The process has to be the host's root, and to have its process ids, the kubelet folder at its
// path, with mounts that propagate to the host, and the runtime's socket. Faults of registrations
// are written to the log, because an API may be missing, and the node agent writes the events.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/event_sink.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "volume/paths.h"
#include "volume/utilities.h"

namespace berth::roles {

struct PodUtilitiesOptions {
  std::string kubelet_folder;    // in which the pods are registered
  std::string runtime_endpoint;  // CRI
  std::string data_folder = "";  // for records of mounts; empty: the process makes no mounts by it
};

// Thread-safe.
class PodUtilities {
 public:
  // Succeeds also while the container runtime does not run. INVALID_ARGUMENT: the endpoint is
  // malformed, or the kubelet folder is no absolute path. Other errors: the folder of registrations
  // cannot be made.
  static base::StatusOr<std::unique_ptr<PodUtilities>> Open(const PodUtilitiesOptions& options);
  // Removes what the object keeps on the machine. Nothing may use it any more.
  ~PodUtilities();

  // Runs the utilities of `plugin` in the pod that is registered for it, else on this machine. It
  // lives as long as this object.
  platform::Exec& exec(std::string_view plugin) { return utilities_->GetExec(plugin); }
  // Runs them in that pod alone.
  platform::Exec& pod_exec(std::string_view plugin) { return utilities_->GetPodExec(plugin); }
  // Ends running and later runs in pods with CANCELLED.
  void CancelRuns() { utilities_->CancelRuns(); }
  platform::Mounter& mounter() { return *mounter_; }

 private:
  // Writes events to the log.
  class LoggedEvents : public base::EventSink {
   public:
    void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
                std::string_view message) override;
  };

  explicit PodUtilities(const std::string& kubelet_folder) : paths_(kubelet_folder) {}

  const volume::Paths paths_;
  LoggedEvents events_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<volume::Utilities> utilities_;
};

}  // namespace berth::roles
