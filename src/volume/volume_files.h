// Small things in the folders of volumes that several plugins do.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "platform/walks/usage.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

std::string ParentOf(const std::string& path);

// Makes or replaces the symlink at once.
Status PointLink(const std::string& link, const std::string& to);

// OK if it is not there.
Status RemoveFile(const std::string& path);

// Removes a folder that must be empty, or nothing if it is not there. FAILED_PRECONDITION
// otherwise.
Status RemoveEmptyFolder(const std::string& path);

// Of a folder that other pods or volumes may still use.
void RemoveFolderIfEmpty(const std::string& path);

// INVALID_ARGUMENT, naming `field`, unless `path` is absolute and has no "..".
Status CheckHostPath(std::string_view field, const std::string& path);

// Gives what is below `folder` to the pod's fsGroup, by its fsGroupChangePolicy; OK for a pod
// without. `folder` may be on a file system that hangs. What takes long is told as events
// VolumePermissionChangeInProgress of the pod, as the kubelet names them. CANCELLED, partly done:
// the process ends.
Status ApplyPodFsGroup(Host& host, const api::Pod& pod, const std::string& folder);

// The usage of a whole file system.
VolumePlugin::Stats StatsOf(const platform::FileSystemUsage& usage);

}  // namespace berth::volume
