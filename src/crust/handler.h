// The handler: knows sandboxes and their volumes, keeps the mapping between the host's paths and
// what is in the sandboxes, and says no. It does not know which kind of sandbox it serves.
//
//   berth-oci: create of the sandbox's container    ──▶  known, with its pod and its bundle
//   node agent: RuntimePublishVolume                ──▶  a volume in it (sandbox_records.h)
//   berth-oci: create of a container                ──▶  its mounts of the volumes
//   berth-oci: delete of the sandbox's container,
//   or its bundle, or the pod of an empty one, is
//   gone                                            ──▶  volumes off, devices free, forgotten
//
// A record is durable before each step; a handler started anew goes on where the last one stopped,
// and containers never notice. Calls for one sandbox are made one at a time: a second one waits for
// ten seconds, a container for longer, and is then told ABORTED; one that ends what is under way
// ends its walk over files, too. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/keyed_workers.h"
#include "base/status.h"
#include "crust/paths.h"
#include "crust/requests.h"
#include "crust/sandbox.h"
#include "crust/sandbox_records.h"
#include "crust/sandbox_table.h"
#include "crust/volume_steps.h"

namespace berth::crust {

struct HandlerOptions {
  Paths paths;
  std::string kubelet_folder;
  Offer offer;
  // How often it is looked whether a sandbox's bundle is still there.
  std::chrono::milliseconds look_every{std::chrono::seconds(30)};
  // How long a device may take to come free once its last mount went.
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  // How long a call waits for another one of its sandbox, and a container that is to be created
  // does: one that cannot be fails a pod whose restartPolicy is Never.
  std::chrono::milliseconds patience{std::chrono::seconds(10)};
  std::chrono::milliseconds container_patience{std::chrono::seconds(90)};
};

// A container that is about to be created.
struct CreateRequest {
  std::string sandbox_id;
  std::string pod_uid;
  std::string config;  // of its bundle: config.json
  size_t from = 0;     // the first of its mounts that is wanted
  size_t most = 0;     // how many are
};
struct CreateReply {
  size_t count = 0;  // of its mounts of deferred volumes
  std::vector<Graft> grafts;
  std::string config;  // with their sources at their places in the graft folder
};

class Handler {
 public:
  // Borrows `kind`, which must outlive it.
  static base::StatusOr<std::unique_ptr<Handler>> Start(HandlerOptions options, SandboxKind& kind);
  // Leaves every volume as it is.
  ~Handler();
  // Ends walks that give files to groups, now and later on: the process is to end.
  void Cancel() { stopping_ = true; }

  // What the node agent asks for (proto/crust.proto).
  base::StatusOr<wire::RuntimeGetCapabilitiesResponse> RuntimeGetCapabilities(
      const wire::RuntimeGetCapabilitiesRequest& request);
  base::StatusOr<wire::RuntimeGetSupportedFileSystemsResponse> RuntimeGetSupportedFileSystems(
      const wire::RuntimeGetSupportedFileSystemsRequest& request);
  base::StatusOr<wire::RuntimePublishVolumeResponse> RuntimePublishVolume(
      const wire::RuntimePublishVolumeRequest& request);
  base::StatusOr<wire::RuntimeUnpublishVolumeResponse> RuntimeUnpublishVolume(
      const wire::RuntimeUnpublishVolumeRequest& request);
  base::StatusOr<wire::RuntimeGetVolumeStatsResponse> RuntimeGetVolumeStats(
      const wire::RuntimeGetVolumeStatsRequest& request);
  base::StatusOr<wire::RuntimeExpandVolumeResponse> RuntimeExpandVolume(
      const wire::RuntimeExpandVolumeRequest& request);

  // What berth-oci asks for. A sandbox's container is about to be created, in `bundle`.
  base::Status BeginSandbox(const std::string& sandbox_id, const std::string& pod_uid,
                            const std::string& bundle);
  base::StatusOr<CreateReply> CreateContainer(const CreateRequest& request);
  // The sandbox's container is deleted. OK for one that is not known.
  base::Status EndSandbox(const std::string& sandbox_id);

 private:
  using Entry = SandboxTable::Entry;
  using Hold = SandboxTable::Hold;

  Handler(HandlerOptions options, SandboxKind& kind, SandboxRecords records);
  base::Status LoadRecords();

  // NOT_FOUND, ABORTED; or why the sandbox cannot be opened.
  base::StatusOr<Hold> HoldSandbox(const std::string& sandbox_id,
                                   const SandboxTable::Wish& wish = SandboxTable::Wish());

  base::StatusOr<std::vector<std::string>> PlannedTargets(const std::string& pod_uid) const;
  base::Status CheckPublish(const SandboxRecord& record,
                            const wire::RuntimePublishVolumeRequest& request) const;
  // Takes every volume off, and forgets the sandbox once all are.
  base::Status ClearSandbox(Entry& entry);
  base::StatusOr<Graft> ForContainer(Entry& entry, VolumeRecord& volume,
                                     const std::string& sub_path);

  base::KeyedWorkers::Outcome CheckBundle(const std::string& sandbox_id);

  const HandlerOptions options_;
  const std::string resolved_kubelet_folder_;
  SandboxKind& kind_;
  SandboxTable sandboxes_;
  const SandboxRecords records_;
  std::atomic<bool> stopping_ = false;
  VolumeSteps steps_;
  std::set<std::string> unreadable_;  // sandboxes of this boot of which nothing is known
  base::KeyedWorkers watch_;          // last: it is stopped first
};

}  // namespace berth::crust
