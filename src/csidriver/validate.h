// Checks requests before any work is done: the limits of the CSI specification (section "Size
// Limits"), required fields, and what this driver supports. Pure functions.
//
// A failure is INVALID_ARGUMENT and names the field, unless said otherwise. Values of fields that
// may be sensitive (secrets, mount flags) never appear in a message.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "block/pools/pool.h"
#include "proto/csi.pb.h"
#include "rpc/csi_limits.h"

namespace berth::csidriver {

using rpc::CheckLimits;
using AccessMode = csi::v1::VolumeCapability::AccessMode;

// A volume capability, checked.
struct Capability {
  block::AccessType access = block::AccessType::kMount;
  std::string fs_type;                   // empty: the driver decides
  std::vector<std::string> mount_flags;  // one option each; may be sensitive
  AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER;
  bool read_only() const {
    return mode == AccessMode::SINGLE_NODE_READER_ONLY ||
           mode == AccessMode::MULTI_NODE_READER_ONLY;
  }
  // Equal capabilities have equal digests, also after a restart. The digest does not reveal the
  // flags.
  std::string Digest() const;
};

// What this driver's node offers. Requests are checked against it.
struct Offer {
  std::string topology_key;
  std::string node_id;
  std::vector<std::string> fs_types;  // supported since the start; the first is the default
  // Checks whether another one is supported by now; the error says why it is not. Empty: none ever
  // is.
  std::function<base::Status(const std::string& fs_type)> check_now = nullptr;

  // INVALID_ARGUMENT: the type is not supported.
  base::Status CheckFileSystem(const std::string& fs_type) const;
};

// Checks that a field that a request must have is not empty.
base::Status CheckGiven(std::string_view field, std::string_view value);

// Checks the id of a volume in a request. NOT_FOUND: this driver never gives out ids of this form.
base::Status CheckVolumeId(std::string_view id);

// Checks the name that a CO gives to a volume or snapshot: 1 to 128 bytes without control
// characters, except tab and line breaks.
base::Status CheckName(std::string_view field, std::string_view name);

// Checks a path for staging or publishing: it must be absolute, without "." or ".." parts, and not
// the root folder. Gives it without doubled or trailing slashes.
base::StatusOr<std::string> CheckPath(std::string_view field, std::string_view path);

// Checks the parameters of a StorageClass or VolumeSnapshotClass. None is needed. An unknown one is
// refused, because it may be a typing error. Those that the CO's sidecars add
// ("csi.storage.k8s.io/...") are accepted.
base::Status CheckParameters(const google::protobuf::Map<std::string, std::string>& parameters);

base::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           const Offer& offer);

// Parses all capabilities of a request. They must agree on access type and file system.
base::StatusOr<std::vector<Capability>> ParseCapabilities(
    const google::protobuf::RepeatedPtrField<csi::v1::VolumeCapability>& capabilities,
    const Offer& offer);

// The volume that a CreateVolume request asks for. RESOURCE_EXHAUSTED: it asks for the topology of
// another node.
base::StatusOr<block::NewVolume> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request,
                                                   const Offer& offer);

// Whether `id` is a handle as the kubelet gives it to an inline (ephemeral) volume: "csi-" and a
// SHA-256.
bool IsInlineHandle(std::string_view id);

// Whether the request publishes an inline volume. The kubelet says so in volume_context if the
// CSIDriver object sets podInfoOnMount.
bool IsInline(const csi::v1::NodePublishVolumeRequest& request);

// The inline volume that a request asks for: a file system with the size in volume_context["size"]
// (a quantity; 1Gi if it is missing).
base::StatusOr<block::NewVolume> ParseInlineVolume(const csi::v1::NodePublishVolumeRequest& request,
                                                   const Capability& capability,
                                                   const Offer& offer);

// Whether `topology` includes this node. A topology without segments includes every node.
bool IncludesThisNode(const csi::v1::Topology& topology, const Offer& offer);

// Decides about a second NodePublishVolume of a published volume, by the table in the specification
// (section "NodePublishVolume"). OK: the volume may be published so; else ALREADY_EXISTS (another
// request published this target) or FAILED_PRECONDITION (`mode` allows one target only).
base::Status CheckSecondPublish(AccessMode::Mode mode, bool same_target, bool same_arguments);

}  // namespace berth::csidriver
