// The handler knows the sandboxes of the node and their volumes. It publishes volumes in sandboxes,
// and gives containers the mounts of these volumes. It refuses a request that does not match what
// is recorded, and it does not depend on the kind of sandbox (sandbox.h).
//
//   berth-oci: create of the sandbox's container    ──▶  known, with its pod and its bundle
//   node agent: RuntimePublishVolume                ──▶  a volume in it (records/sandbox_records.h)
//                                                        or, for a pod, in each of its sandboxes
//                                                        that begins later (pods/pod_volumes.h)
//   berth-oci: create of a container                ──▶  its mounts of the volumes
//   berth-oci: delete of the sandbox's container,
//   or its bundle, or the pod of an empty one, is
//   gone                                            ──▶  volumes off, devices free, forgotten
//
// A record is written before each step. A new handler goes on where the last one stopped, and
// containers do not notice. Only one call at a time works on a sandbox: a second call waits for ten
// seconds, or longer if it creates a container, and then gets ABORTED. If the waiting call
// unpublishes a volume or ends the sandbox, it also stops a walk over files (fsGroup) of the
// running call. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/ipc/message.h"
#include "base/ipc/server.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "crust/containers/container_mounts.h"
#include "crust/paths.h"
#include "crust/pods/pod_volumes.h"
#include "crust/records/sandbox_records.h"
#include "crust/requests.h"
#include "crust/sandbox.h"
#include "crust/sandbox_table.h"
#include "crust/serving/runtime_calls.h"
#include "crust/volume_steps.h"
#include "platform/mounts/mounter.h"
#include "rpc/cri_ids.h"

namespace berth::crust {

struct HandlerOptions {
  Paths paths;
  std::string kubelet_folder;
  Offer offer;
  // The longest time between two checks whether a sandbox still exists (bundle_check.h).
  std::chrono::milliseconds check_interval{std::chrono::seconds(30)};
  // How long a device may stay busy after its last mount is gone.
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  // How long a call waits for another call of its sandbox or pod. The creation of a container waits
  // longer, because its failure ends a pod whose restartPolicy is Never.
  std::chrono::milliseconds patience{std::chrono::seconds(10)};
  std::chrono::milliseconds container_patience{std::chrono::seconds(90)};
};

class Handler final : public RuntimeCalls {
 public:
  // Loads the records of this boot and opens their sandboxes. Borrows `kind` and `mounter`, the
  // mounts of the host, which must outlive the handler. Errors: a folder or record cannot be read
  // or written. A sandbox that cannot be opened is no error; the next call for it tries again.
  static base::StatusOr<std::unique_ptr<Handler>> Start(HandlerOptions options, SandboxKind& kind,
                                                        platform::Mounter& mounter);
  // Leaves every volume as it is.
  ~Handler() override;
  // Stops the walks that change the group of files (fsGroup), those that run and those that begin
  // later. Call it before the process ends.
  void CancelWalks() { stopping_ = true; }

  // The calls of the node agent.
  base::StatusOr<wire::RuntimeGetCapabilitiesResponse> RuntimeGetCapabilities(
      const wire::RuntimeGetCapabilitiesRequest& request) override;
  base::StatusOr<wire::RuntimeGetSupportedFileSystemsResponse> RuntimeGetSupportedFileSystems(
      const wire::RuntimeGetSupportedFileSystemsRequest& request) override;
  base::StatusOr<wire::RuntimePublishVolumeResponse> RuntimePublishVolume(
      const wire::RuntimePublishVolumeRequest& request) override;
  base::StatusOr<wire::RuntimeUnpublishVolumeResponse> RuntimeUnpublishVolume(
      const wire::RuntimeUnpublishVolumeRequest& request) override;
  base::StatusOr<wire::RuntimeGetVolumeStatsResponse> RuntimeGetVolumeStats(
      const wire::RuntimeGetVolumeStatsRequest& request) override;
  base::StatusOr<wire::RuntimeExpandVolumeResponse> RuntimeExpandVolume(
      const wire::RuntimeExpandVolumeRequest& request) override;

  // The calls of berth-oci follow.
  //
  // Records the sandbox before its container is created from the folder `bundle`, and publishes the
  // volumes of its pod in it. If it is recorded with the same arguments, only what is missing is
  // done. INVALID_ARGUMENT: an id or the bundle is wrong. FAILED_PRECONDITION: another sandbox has
  // the id. RESOURCE_EXHAUSTED: there are too many. Other errors: a volume cannot be published. If
  // the call fails, a new sandbox is cleared. Returns a pidfd of the sandbox's virtual machine; not
  // valid: the sandbox has the host's kernel.
  base::StatusOr<base::UniqueFd> BeginSandbox(const rpc::SandboxId& id, const api::PodUid& pod,
                                              const std::string& bundle);
  // Finds the container's mounts of deferred volumes and makes a graft of each, or creates the
  // container in the sandbox's guest. NOT_FOUND, ABORTED: see SandboxTable::HoldSandbox. Other
  // errors: see ContainerMounts::PrepareContainer.
  base::StatusOr<CreateReply> CreateContainer(const CreateRequest& request);
  // Any other call about a container in a guest (base/ipc/container_call.h). FAILED_PRECONDITION:
  // the sandbox's containers run on the host. Other errors: see SandboxTable::HoldSandbox and
  // GuestContainers::Call.
  base::StatusOr<base::ipc::Reply> CallContainer(const std::string& sandbox_id,
                                                 const base::ipc::Message& request);
  // Unpublishes the sandbox's volumes and forgets the sandbox, because its container is deleted. OK
  // if the handler does not know the sandbox. If a step fails, the handler repeats it later.
  base::Status EndSandbox(const std::string& sandbox_id);

 private:
  using Entry = SandboxTable::Entry;
  using Hold = SandboxTable::Hold;

  Handler(HandlerOptions options, SandboxKind& kind, platform::Mounter& mounter,
          SandboxRecords records, std::unique_ptr<PodVolumes> pods);
  base::Status LoadRecords();

  // Holds and opens the sandbox. NOT_FOUND, ABORTED: see SandboxTable::HoldSandbox.
  // INVALID_ARGUMENT: it is no sandbox id. INTERNAL: its record cannot be read, or it cannot be
  // opened.
  base::StatusOr<Hold> HoldSandbox(
      const std::string& sandbox_id,
      const SandboxTable::HoldOptions& options = SandboxTable::HoldOptions());

  // Starts the sandbox's guest, if it is one, and publishes the volumes of its pod. Returns what
  // BeginSandbox returns.
  base::StatusOr<base::UniqueFd> PrepareSandbox(Entry& entry);
  base::Status PublishPodVolumes(Entry& entry);
  // Whether a sandbox of the pod has a volume at the target, or may have it.
  base::StatusOr<bool> IsInSandbox(const api::PodUid& pod, const platform::TargetPath& target);
  // Takes the volume at the target out of each sandbox of the pod.
  base::Status TakeOutOfSandboxes(const api::PodUid& pod, const platform::TargetPath& target);
  base::Status PublishForPod(const api::PodUid& pod,
                             const wire::RuntimePublishVolumeRequest& request);
  base::Status UnpublishForPod(const api::PodUid& pod,
                               const wire::RuntimeUnpublishVolumeRequest& request);

  // A volume in a sandbox that the call holds.
  struct HeldVolume {
    Hold hold;
    VolumeRecord volume;
  };
  // Finds the volume in the sandbox, or in a sandbox of the pod if the request names one.
  // NOT_FOUND: it is not there. UNAVAILABLE: the pod has no sandbox with the volume now. Other
  // errors: see HoldSandbox and NamesPod.
  template <typename Request>
  base::StatusOr<HeldVolume> HoldVolume(const Request& request);
  base::StatusOr<HeldVolume> HoldVolumeOfPod(const api::PodUid& pod,
                                             const std::string& host_volume_id);

  base::Status CheckPublish(const SandboxRecord& record,
                            const wire::RuntimePublishVolumeRequest& request) const;
  // Unpublishes all volumes, and forgets the sandbox when none is left. `free_within`: as in
  // VolumeSteps::UnpublishVolume.
  base::Status ClearSandbox(Entry& entry, std::chrono::milliseconds free_within);

  // The work of watch_ on a sandbox.
  base::KeyedWorkers::Outcome ClearSandboxIfEnded(const std::string& sandbox_id);

  const HandlerOptions options_;
  SandboxKind& kind_;
  SandboxTable sandboxes_;
  const SandboxRecords records_;
  const std::unique_ptr<PodVolumes> pods_;
  std::atomic<bool> stopping_ = false;
  VolumeSteps steps_;
  ContainerMounts mounts_;
  std::set<std::string> unreadable_;  // sandboxes of this boot with a record that cannot be read
  base::KeyedWorkers watch_;          // last: it is stopped first
};

}  // namespace berth::crust
