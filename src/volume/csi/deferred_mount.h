// A CSI driver's answer that leaves a mount to the runtime handler of a pod's sandbox, and the
// later questions to that handler about the volume (KEP-2857).
//
// The driver names the device or share; nothing of the answer is trusted before it is checked.
// Thread-safe; calls of the handler block, with deadlines.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/csi.pb.h"
#include "rpc/crust_client.h"
#include "volume/csi/csi_volume.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// Reads NodePublishVolumeResponse.runtime_mount_info for a volume whose runtime_file_systems were
// offered to the driver. FAILED_PRECONDITION: it names no source, or a file system that was not
// offered; INVALID_ARGUMENT: options that cannot be mount options.
StatusOr<DeferredMount> ReadMountInfo(const Volume& volume,
                                      const csi::v1::FileSystemMountInfo& info);

// The runtime handler of one sandbox.
class SandboxHandler {
 public:
  // UNAVAILABLE: the pod has no sandbox at this moment.
  static StatusOr<std::unique_ptr<SandboxHandler>> Of(const SandboxPlace& place);

  StatusOr<bool> Can(rpc::crust::RuntimeCapability::RPC::Type capability);
  StatusOr<VolumePlugin::Stats> GetStats(const std::string& source);
  StatusOr<std::optional<VolumePlugin::Condition>> GetCondition(const std::string& source);
  // Returns the size that the volume has then.
  StatusOr<int64_t> Expand(const std::string& source, int64_t bytes);

 private:
  SandboxHandler(std::unique_ptr<rpc::CrustClient> client, std::string sandbox_id)
      : client_(std::move(client)), sandbox_id_(std::move(sandbox_id)) {}
  StatusOr<rpc::crust::RuntimeGetVolumeStatsResponse> AskStats(const std::string& source);

  const std::unique_ptr<rpc::CrustClient> client_;
  const std::string sandbox_id_;
};

// Reads the figures from an answer of CSI or of CRUST, whose usage messages are alike. UNAVAILABLE:
// there are none.
template <typename Usages>
StatusOr<VolumePlugin::Stats> StatsOfUsage(const Usages& usages) {
  if (usages.empty()) {
    return base::Error(base::StatusCode::kUnavailable,
                       "how full it is, is not told at this moment");
  }
  VolumePlugin::Stats stats;
  for (const auto& usage : usages) {
    using Usage = std::decay_t<decltype(usage)>;
    if (usage.unit() == Usage::BYTES) {
      stats.total_bytes = usage.total();
      stats.used_bytes = usage.used();
      stats.available_bytes = usage.available();
    } else if (usage.unit() == Usage::INODES) {
      stats.total_inodes = usage.total();
      stats.used_inodes = usage.used();
      stats.available_inodes = usage.available();
    }
  }
  return stats;
}

}  // namespace berth::volume::csi_volume
