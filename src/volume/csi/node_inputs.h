// The parts of node calls that come from the API: secrets, the pod's identity, service account
// tokens.
#pragma once

#include <google/protobuf/map.h>

#include <optional>
#include <string>

#include "proto/csi.pb.h"
#include "volume/csi/csi_volume.h"
#include "volume/host.h"
#include "volume/token_cache.h"

namespace berth::volume::csi_volume {

using StringMap = google::protobuf::Map<std::string, std::string>;

void Assign(const api::Labels& from, StringMap& to);

// The request holds the values of the volume's secret for this call.
StatusOr<csi::v1::NodeStageVolumeRequest> StageRequest(Host& host, const Volume& volume,
                                                       const std::string& target,
                                                       const api::Labels& publish_context,
                                                       const csi::v1::VolumeCapability& capability);
csi::v1::NodeUnstageVolumeRequest UnstageRequest(const std::string& handle,
                                                 const std::string& target);
csi::v1::NodeUnpublishVolumeRequest UnpublishRequest(const std::string& handle,
                                                     const std::string& target);

// The driver's CSIDriver object. If there is none: one without a spec, which means the defaults.
StatusOr<api::CsiDriver> ReadDriverObject(Host& host, const std::string& driver);

// The values of the Secret that `reference` names; nothing for an empty reference. Values that are
// not text are INVALID_ARGUMENT, as CSI asks for text.
StatusOr<StringMap> ReadSecret(Host& host, const api::SecretReference& reference);

// Whether the driver gets tokens of the pod's service account among the secrets.
bool HasSecretTokens(const api::CsiDriver& driver);

// Adds what NodePublishVolume of a file system gets beside the PV's own attributes: podInfoOnMount
// and tokenRequests of the CSIDriver object. Tokens go into `secrets` if the driver asks for that.
Status AddPodInputs(TokenCache& tokens, const api::Pod& pod, const Volume& volume,
                    const api::CsiDriver& driver, StringMap& context, StringMap& secrets);

}  // namespace berth::volume::csi_volume
