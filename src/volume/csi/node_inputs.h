// Makes the parts of node calls that come from the API: secrets, the pod's identity, and service
// account tokens.
#pragma once

#include <google/protobuf/map.h>

#include <optional>
#include <string>

#include "api/kinds/object_ids.h"
#include "platform/mounts/mount_paths.h"
#include "proto/csi.pb.h"
#include "volume/csi/csi_volume.h"
#include "volume/host.h"
#include "volume/token_cache.h"

namespace berth::volume::csi_volume {

using StringMap = google::protobuf::Map<std::string, std::string>;

void AssignLabels(const api::Labels& from, StringMap& to);

// The request holds the values of the volume's secret for this call.
StatusOr<csi::v1::NodeStageVolumeRequest> MakeStageRequest(
    Host& host, const Volume& volume, const platform::StagingPath& staging,
    const api::Labels& publish_context, const csi::v1::VolumeCapability& capability);
csi::v1::NodeUnstageVolumeRequest MakeUnstageRequest(const api::VolumeHandle& handle,
                                                     const platform::StagingPath& staging);
csi::v1::NodeUnpublishVolumeRequest MakeUnpublishRequest(const api::VolumeHandle& handle,
                                                         const platform::TargetPath& target);

// Reads the driver's CSIDriver object. If there is none, returns one without a spec, which has the
// defaults.
StatusOr<api::CsiDriver> ReadDriverObject(Host& host, const std::string& driver);

// Reads the values of the Secret that `reference` names; none for an empty reference.
// INVALID_ARGUMENT: a value is not text, which CSI requires. Other errors come from the API.
StatusOr<StringMap> ReadSecret(Host& host, const api::SecretReference& reference);

// Whether the driver gets tokens of the pod's service account among the secrets.
bool HasSecretTokens(const api::CsiDriver& driver);

// Adds the values that NodePublishVolume of a file system gets besides the PV's attributes: those
// for podInfoOnMount and for tokenRequests of the CSIDriver object. Tokens go into `secrets` if the
// driver asks for that, else into `context`.
Status AddPodInputs(TokenCache& tokens, const api::Pod& pod, const Volume& volume,
                    const api::CsiDriver& driver, StringMap& context, StringMap& secrets);

}  // namespace berth::volume::csi_volume
