// Reads what the kubelet's requests say about a volume: whose it is, and how it is to be mounted.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "proto/csi.pb.h"
#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::crustproxy {

// The pod and the PersistentVolume of a target path.
struct PodTarget {
  api::PodUid pod;
  api::VolumeName volume;
};
// Reads <kubelet>/pods/UID/volumes/kubernetes.io~csi/NAME/mount. nullopt: the path has another
// shape.
std::optional<PodTarget> ReadTarget(const volume::Paths& paths, const std::string& target);

// Sets the mount's options and SELinux label from the flags of the kubelet's capability: "noatime",
// "uid=5,gid=6", or 'context="u:r:t:s0:c1,c2"'.
void ReadMountFlags(const csi::v1::VolumeCapability& capability, volume::DeferredMount& mount);

// The capability's group (VOLUME_MOUNT_GROUP); nullopt: it names none.
std::optional<int64_t> ReadMountGroup(const csi::v1::VolumeCapability& capability);

}  // namespace berth::crustproxy
