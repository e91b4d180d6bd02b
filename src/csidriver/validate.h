// What a request must look like before anything is done for it: the limits of the CSI specification
// (section "Size Limits"), required fields, and what this driver supports. Pure functions.
//
// A failure is INVALID_ARGUMENT and names the field, unless said otherwise. Values of fields that
// may be sensitive (secrets, mount flags) never appear in a message.
#pragma once

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
  // The same for the same capability, whatever a restart; tells nothing of the flags.
  std::string Digest() const;
};

// What this driver's node offers, which requests are held against.
struct Offer {
  std::string topology_key;
  std::string node_id;
  std::vector<std::string> fs_types;  // supported here; the first is the default
};

// The id of a volume in a request; one that this driver never gave out is not looked for:
// NOT_FOUND.
base::Status CheckVolumeId(std::string_view id);

// A volume's or snapshot's name as a CO may give it.
base::Status CheckName(std::string_view field, std::string_view name);

// A path for staging or publishing: absolute, no "." or ".." part. Gives it without doubled or
// trailing slashes.
base::StatusOr<std::string> CheckPath(std::string_view field, std::string_view path);

// Parameters of a StorageClass or VolumeSnapshotClass: none is needed, and an unknown one is
// refused, so that a typing error shows. Those that the CO's own sidecars add
// ("csi.storage.k8s.io/...") are let pass.
base::Status CheckParameters(const google::protobuf::Map<std::string, std::string>& parameters);

base::StatusOr<Capability> ParseCapability(const csi::v1::VolumeCapability& capability,
                                           const Offer& offer);

// All of a request's capabilities, which must agree on access type and file system.
base::StatusOr<std::vector<Capability>> ParseCapabilities(
    const google::protobuf::RepeatedPtrField<csi::v1::VolumeCapability>& capabilities,
    const Offer& offer);

// What to make of CreateVolume. RESOURCE_EXHAUSTED: the topology asked for is elsewhere.
base::StatusOr<block::NewVolume> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request,
                                                   const Offer& offer);

// True for the handle that a CO gives to an inline (ephemeral) volume: "csi-" and a SHA-256.
bool IsInlineHandle(std::string_view id);

// NodePublishVolume of an inline volume: volume_context says so, as the CSIDriver object's
// podInfoOnMount lets it.
bool IsInline(const csi::v1::NodePublishVolumeRequest& request);

// What to make for it: a file system of volume_context["size"] (a quantity; 1Gi without it).
base::StatusOr<block::NewVolume> ParseInlineVolume(const csi::v1::NodePublishVolumeRequest& request,
                                                   const Capability& capability,
                                                   const Offer& offer);

// True if `topology` is where this node is. A term without segments says nothing and is so.
bool IsHere(const csi::v1::Topology& topology, const Offer& offer);

// A second NodePublishVolume of a published volume, by the table of the specification (section
// "NodePublishVolume"): OK to go on, ALREADY_EXISTS or FAILED_PRECONDITION.
base::Status CheckSecondPublish(AccessMode::Mode mode, bool same_target, bool same_arguments);

}  // namespace berth::csidriver
