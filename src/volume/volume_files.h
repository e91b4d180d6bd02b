// Small operations in the folders of volumes that several plugins need.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "platform/walks/usage.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// The folder that holds `path`.
std::string ParentOf(const std::string& path);

// Makes or replaces the symlink `link` to `to` in one step. Makes the link's folder (mode 0750) if
// it is missing.
Status PointLink(const std::string& link, const std::string& to);

// Removes a file. OK if it does not exist.
Status RemoveFile(const std::string& path);

// Removes a folder. OK if it does not exist. FAILED_PRECONDITION: it is not empty.
Status RemoveEmptyFolder(const std::string& path);

// Removes a folder if it is empty. A failure is ignored, because other pods or volumes may still
// use the folder.
void RemoveFolderIfEmpty(const std::string& path);

// INVALID_ARGUMENT, naming `field`, unless `path` is absolute and has no "..".
Status CheckHostPath(std::string_view field, const std::string& path);

// Gives everything below `folder` to the pod's fsGroup, by its fsGroupChangePolicy; OK for a pod
// without fsGroup. `folder` may be on a file system that hangs. If it takes long, events
// VolumePermissionChangeInProgress of the pod report it, as from the kubelet. CANCELLED: the
// process ends, and only a part is done.
Status ApplyPodFsGroup(Host& host, const api::Pod& pod, const std::string& folder);

// Converts the usage of a whole file system.
VolumePlugin::Stats StatsOf(const platform::FileSystemUsage& usage);

}  // namespace berth::volume
