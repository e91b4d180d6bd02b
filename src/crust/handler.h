// The handler: knows the sandboxes and their volumes, maps the host's paths to the volumes in the
// sandboxes, and refuses requests that do not fit. It does not know which kind of sandbox it
// serves.
//
//   berth-oci: create of the sandbox's container    ──▶  known, with its pod and its bundle
//   node agent: RuntimePublishVolume                ──▶  a volume in it (sandbox_records.h)
//   berth-oci: create of a container                ──▶  its mounts of the volumes
//   berth-oci: delete of the sandbox's container,
//   or its bundle, or the pod of an empty one, is
//   gone                                            ──▶  volumes off, devices free, forgotten
//
// A record is durable before each step. A new handler goes on where the last one stopped, and
// containers do not notice. Only one call at a time works on a sandbox: a second one waits for ten
// seconds, or longer if it creates a container, and then gets ABORTED. A waiting call that undoes
// the running call also stops its walk over files. Thread-safe.
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
  // The longest interval between two checks that a sandbox's bundle still exists.
  std::chrono::milliseconds look_every{std::chrono::seconds(30)};
  // How long a device may stay busy after its last mount is gone.
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  // How long a call waits for another call of its sandbox. The creation of a container waits
  // longer, because its failure ends a pod whose restartPolicy is Never.
  std::chrono::milliseconds patience{std::chrono::seconds(10)};
  std::chrono::milliseconds container_patience{std::chrono::seconds(90)};
};

// A container that is about to be created.
struct CreateRequest {
  std::string sandbox_id;
  std::string pod_uid;
  std::string config;  // the text of config.json in its bundle
  size_t from = 0;     // index of the first mount that the reply must have
  size_t most = 0;     // how many mounts the reply may have
};
struct CreateReply {
  size_t count = 0;  // number of its mounts of deferred volumes
  std::vector<Graft> grafts;
  std::string config;  // the config with sources in the graft folder
};

class Handler {
 public:
  // Borrows `kind`, which must outlive it.
  static base::StatusOr<std::unique_ptr<Handler>> Start(HandlerOptions options, SandboxKind& kind);
  // Leaves every volume as it is.
  ~Handler();
  // Stops walks that give files to groups, now and later. Call it before the process ends.
  void Cancel() { stopping_ = true; }

  // The calls of the node agent (proto/crust.proto).
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

  // The calls of berth-oci. BeginSandbox: a sandbox's container is about to be created, in
  // `bundle`.
  base::Status BeginSandbox(const std::string& sandbox_id, const std::string& pod_uid,
                            const std::string& bundle);
  base::StatusOr<CreateReply> CreateContainer(const CreateRequest& request);
  // The sandbox's container is deleted. OK if the handler does not know the sandbox.
  base::Status EndSandbox(const std::string& sandbox_id);

 private:
  using Entry = SandboxTable::Entry;
  using Hold = SandboxTable::Hold;

  Handler(HandlerOptions options, SandboxKind& kind, SandboxRecords records);
  base::Status LoadRecords();

  // Holds and opens the sandbox. NOT_FOUND; ABORTED; any other failure says why the sandbox cannot
  // be opened.
  base::StatusOr<Hold> HoldSandbox(const std::string& sandbox_id,
                                   const SandboxTable::Wish& wish = SandboxTable::Wish());

  base::StatusOr<std::vector<std::string>> PlannedTargets(const std::string& pod_uid) const;
  base::Status CheckPublish(const SandboxRecord& record,
                            const wire::RuntimePublishVolumeRequest& request) const;
  // Takes every volume off, and forgets the sandbox once all are off.
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
  std::set<std::string> unreadable_;  // sandboxes of this boot with a record that cannot be read
  base::KeyedWorkers watch_;          // last: it is stopped first
};

}  // namespace berth::crust
