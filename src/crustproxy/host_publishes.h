// Finds the pods for which the host has a volume mounted.
//
// Thread-safe; reads the mount table only, and no file system that could hang.
#pragma once

#include <optional>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crustproxy/volume_records.h"
#include "platform/mounts/mounter.h"
#include "volume/paths.h"

namespace berth::crustproxy {

// The pod for which the host has the volume mounted, or may have it, at another target than
// `target`; nullopt: there is none. `name` is that of the PersistentVolume. Mounts of file systems
// that several kernels may mount (node::AllowsParallelMounts) do not count; those that are only
// recorded have the type `fs_type`.
base::StatusOr<std::optional<api::PodUid>> FindHostPublish(
    platform::Mounter& mounter, const volume::Paths& paths, const VolumeRecord& record,
    const api::VolumeName& name, const platform::TargetPath& target, std::string_view fs_type);

}  // namespace berth::crustproxy
