// From Kubernetes' words to CSI's: access modes, capabilities and secrets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/client.h"
#include "proto/csi.pb.h"

namespace berth::controllers {

// The CSI access mode for a volume's modes (ReadWriteOnce, ...). `single_node_multi_writer` is the
// driver's capability of that name. INVALID_ARGUMENT for modes that no volume can have together.
base::StatusOr<csi::v1::VolumeCapability::AccessMode::Mode> ToCsiAccessMode(
    const std::vector<std::string>& modes, bool single_node_multi_writer);

// The capability of a CSI volume: block or mount with file system type and options, and its access
// mode. An empty fsType becomes `default_fs_type`.
base::StatusOr<csi::v1::VolumeCapability> ToCsiCapability(const api::PersistentVolume& volume,
                                                          bool single_node_multi_writer,
                                                          const std::string& default_fs_type);

// The decoded data of a Secret, by a request of the API each time: secrets are kept nowhere. An
// empty reference gives an empty map. NOT_FOUND names the secret; values are in no message.
base::StatusOr<std::map<std::string, std::string>> ReadSecret(
    kube::Client& client, const api::SecretReference& reference);

template <typename ProtoMap>
void CopyTo(const std::map<std::string, std::string>& from, ProtoMap* to) {
  to->insert(from.begin(), from.end());
}

template <typename ProtoMap>
std::map<std::string, std::string> ToMap(const ProtoMap& from) {
  return {from.begin(), from.end()};
}

// "rpc error: code = NotFound desc = ...", as Kubernetes shows a driver's error.
std::string DriverError(const base::Status& status);

// Marks a failure as what the driver answered to a call (or did not answer), apart from those on
// the way to the call: a volume that is not there, a secret, the API.
base::Status OfDriver(base::Status status);
bool IsOfDriver(const base::Status& status);

// The API is away, or has something newer than what was read: to be tried again (AfterApi), and
// nothing that an object should be said to have failed with.
bool IsOfApi(const base::Status& status);

// What a person reads: DriverError of a driver's failure, else the message alone.
std::string FailureText(const base::Status& status);

}  // namespace berth::controllers
