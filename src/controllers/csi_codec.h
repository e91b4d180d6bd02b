// Converts access modes, volumes and Secrets of Kubernetes to the types of CSI, and the errors of
// drivers to the texts of Kubernetes.
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

// Reads the decoded data of a Secret. Each call asks the API, because secrets are not kept in
// memory. An empty reference gives an empty map. NOT_FOUND: there is no such Secret;
// INVALID_ARGUMENT: a value is not base64; other errors come from the API. Each message names the
// Secret, and none holds a value.
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

// Marks a failure as the outcome of a call of the driver. Failures before the call are not marked:
// a volume or a secret that does not exist, the API.
base::Status OfDriver(base::Status status);
bool IsOfDriver(const base::Status& status);

// Whether the API is away, or has a newer version than the one that was read. The caller tries
// again (AfterApi), and does not report the failure on an object.
bool IsOfApi(const base::Status& status);

// The text for a person: DriverError of a driver's failure, else the message alone.
std::string FailureText(const base::Status& status);

}  // namespace berth::controllers
