// Reads the answer of a CSI driver that leaves a mount to the runtime handler of a pod's sandbox,
// and calls that handler for the volume later (KEP-2857).
//
// The driver names the device or share. The whole answer is checked before it is used. Thread-safe;
// calls of the handler block, with deadlines.
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
  // Makes a client of the handler. UNAVAILABLE: the pod has no sandbox now.
  static StatusOr<std::unique_ptr<SandboxHandler>> Connect(const SandboxPlace& place);

  StatusOr<bool> HasCapability(rpc::crust::RuntimeCapability::RPC::Type capability);
  StatusOr<VolumePlugin::Stats> GetStats(const std::string& source);
  StatusOr<std::optional<VolumePlugin::Condition>> GetCondition(const std::string& source);
  // Grows the file system; `source` is the device on the host. Returns the volume's new size in
  // bytes.
  StatusOr<int64_t> Expand(const std::string& source, int64_t bytes);

 private:
  SandboxHandler(std::unique_ptr<rpc::CrustClient> client, std::string sandbox_id)
      : client_(std::move(client)), sandbox_id_(std::move(sandbox_id)) {}
  StatusOr<rpc::crust::RuntimeGetVolumeStatsResponse> AskStats(const std::string& source);

  const std::unique_ptr<rpc::CrustClient> client_;
  const std::string sandbox_id_;
};

// Reads the usage from an answer of CSI or of CRUST, whose usage messages are alike. UNAVAILABLE:
// there are none.
template <typename Usages>
StatusOr<VolumePlugin::Stats> StatsOfUsage(const Usages& usages) {
  if (usages.empty()) {
    return base::Error(base::StatusCode::kUnavailable,
                       "the driver or the runtime handler does not say now how full it is");
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
