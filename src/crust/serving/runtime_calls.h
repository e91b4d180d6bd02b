// The calls of the CRUST API as a handler implements them. proto/crust.proto says what they do, and
// docs/crust.md which errors they have. A handler checks all that a request says, and its messages
// never quote mount options, because they are logged. Implementations are thread-safe.
#pragma once

#include "base/status.h"
#include "proto/crust.pb.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;

class RuntimeCalls {
 public:
  virtual ~RuntimeCalls() = default;

  virtual base::StatusOr<wire::RuntimeGetCapabilitiesResponse> RuntimeGetCapabilities(
      const wire::RuntimeGetCapabilitiesRequest& request) = 0;
  virtual base::StatusOr<wire::RuntimeGetSupportedFileSystemsResponse>
  RuntimeGetSupportedFileSystems(const wire::RuntimeGetSupportedFileSystemsRequest& request) = 0;
  virtual base::StatusOr<wire::RuntimePublishVolumeResponse> RuntimePublishVolume(
      const wire::RuntimePublishVolumeRequest& request) = 0;
  virtual base::StatusOr<wire::RuntimeUnpublishVolumeResponse> RuntimeUnpublishVolume(
      const wire::RuntimeUnpublishVolumeRequest& request) = 0;
  virtual base::StatusOr<wire::RuntimeGetVolumeStatsResponse> RuntimeGetVolumeStats(
      const wire::RuntimeGetVolumeStatsRequest& request) = 0;
  virtual base::StatusOr<wire::RuntimeExpandVolumeResponse> RuntimeExpandVolume(
      const wire::RuntimeExpandVolumeRequest& request) = 0;
};

}  // namespace berth::crust
