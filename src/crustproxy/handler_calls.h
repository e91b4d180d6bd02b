// The calls of a pod's runtime handler about a volume. The pod stands for its sandbox, because the
// kubelet makes the sandbox later, and may make another one at any time (proto/crust.proto,
// pod_uid).
//
// Each blocks, with a deadline. Errors are the handler's.
#pragma once

#include "base/status.h"
#include "crustproxy/volume_records.h"
#include "proto/csi.pb.h"

namespace berth::crustproxy {

// Has the handler mount the volume in each sandbox of the pod. Idempotent.
base::Status PublishToPod(const PodUse& use, bool read_only);
// Has it take the volume out of the pod's sandboxes. OK if it does not know the volume.
base::Status UnpublishFromPod(const PodUse& use);
// Whether the handler grows file systems.
base::StatusOr<bool> HandlerGrowsVolumes(const PodUse& use);
base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> AskHandlerForStats(const PodUse& use);
// Returns the volume's size in bytes.
base::StatusOr<int64_t> AskHandlerToGrow(const PodUse& use, int64_t required_bytes);

// How full a file system of the host is, for a driver that does not say it.
base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> ReadStatsOnHost(const std::string& path);

}  // namespace berth::crustproxy
