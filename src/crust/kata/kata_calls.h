// The calls of the CRUST API in front of an unmodified Kata. Kata mounts a volume when it creates a
// container whose mount has the volume's target path as its source; all that is done here before is
// to tell it so (direct_volume.h), and to check what Kata does not:
//
//   publish      checks ─▶ record ─▶ placeholder (for a pod) ─▶ mountInfo.json
//   Kata         reads it for a container ─▶ attaches the device ─▶ mounts it
//   unpublish    no mountInfo.json ─▶ no placeholder ─▶ device unused ─▶ no record
//
// The numbers of a volume and its growth are asked of the shim (shim_client.h). A volume of a
// sandbox or pod that is gone is unpublished without a call.
//
// A record is durable before each step, so a new handler goes on where the last one stopped. What a
// request needs and Kata cannot do is refused (docs/adr/0045). Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "crust/kata/direct_volume.h"
#include "crust/kata/kata_sandboxes.h"
#include "crust/kata/volume_table.h"
#include "crust/requests.h"
#include "crust/serving/runtime_calls.h"
#include "platform/mounts/mounter.h"

namespace berth::crust::kata {

struct KataCallsOptions {
  std::string data_folder;
  std::string kata_run;  // /run: below it Kata has its files
  std::string bundles;   // containerd's bundles (kata_sandboxes.h)
  std::string kubelet_folder;
  Offer offer;
  KataRuntime runtime = KataRuntime::kGo;  // which the RuntimeClass leads to
  // The time between two checks whether a pod or sandbox still exists.
  std::chrono::milliseconds check_interval{std::chrono::seconds(30)};
  // How long a device may stay busy after the last virtual machine should have let go of it.
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  // How long a call waits for another call of its pod.
  std::chrono::milliseconds patience{std::chrono::seconds(10)};
  // How long the shim may take for numbers, and for growth.
  std::chrono::milliseconds stats_time{std::chrono::seconds(5)};
  std::chrono::milliseconds growth_time{std::chrono::seconds(60)};
};

class KataCalls final : public RuntimeCalls {
 public:
  // Loads the records of this boot. Borrows `mounter`, the mounts of the host, which must outlive
  // the result. Errors: a folder or record cannot be read or written.
  static base::StatusOr<std::unique_ptr<KataCalls>> Start(KataCallsOptions options,
                                                          platform::Mounter& mounter);
  // Leaves every volume as it is.
  ~KataCalls() override;

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

 private:
  KataCalls(KataCallsOptions options, platform::Mounter& mounter,
            std::unique_ptr<VolumeTable> table);

  // Finds out for which pod and sandbox the request is, and checks all that needs no look at the
  // device's content.
  base::StatusOr<KataVolume> ReadPublish(const wire::RuntimePublishVolumeRequest& request) const;
  // The pod is locked.
  base::Status PublishVolume(KataVolume volume);
  // Whether `known`, at the same target, is a publish of the same volume in the same way.
  base::Status CheckRepeated(const KataVolume& known, const KataVolume& volume) const;
  // Checks that the device has that file system, and that nobody uses it; sets its size.
  base::Status CheckDevice(KataVolume& volume) const;
  base::Status TellKata(const KataVolume& volume);
  // The pod is locked.
  base::Status UnpublishVolume(KataVolume volume);

  // Finds the published volume that a request names. NOT_FOUND: there is none.
  template <typename Request>
  base::StatusOr<KataVolume> FindVolume(const Request& request) const;
  // Finds the socket of the shim that has the volume. UNAVAILABLE: no sandbox of the pod has it
  // now. FAILED_PRECONDITION: its runtime has no such socket.
  base::StatusOr<std::string> FindShim(const KataVolume& volume) const;
  base::Status GrowVolume(KataVolume volume, int64_t bytes);

  // Whether the pod has left the node.
  bool IsPodGone(const api::PodUid& pod) const;
  // Returns those sandboxes of the volumes that this check and the one before did not find.
  std::set<rpc::SandboxId> FindEnded(const std::vector<KataVolume>& volumes);
  // The work of watch_ on a pod.
  base::KeyedWorkers::Outcome ClearPod(const std::string& pod);

  const KataCallsOptions options_;
  platform::Mounter& mounter_;
  const KataSandboxes sandboxes_;
  const DirectVolumes volumes_;
  const std::unique_ptr<VolumeTable> table_;
  base::Mutex mutex_;
  // Sandboxes that the last check did not find; the next check decides.
  std::set<rpc::SandboxId> missed_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers watch_;  // last: it is stopped first
};

}  // namespace berth::crust::kata
