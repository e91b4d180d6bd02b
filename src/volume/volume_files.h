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

std::string ParentOf(const std::string& path);

// Makes or replaces the symlink in one step.
Status PointLink(const std::string& link, const std::string& to);

// OK if it is not there.
Status RemoveFile(const std::string& path);

// Removes a folder that must be empty, or nothing if it is not there. FAILED_PRECONDITION
// otherwise.
Status RemoveEmptyFolder(const std::string& path);

// For a folder that other pods or volumes may still use.
void RemoveFolderIfEmpty(const std::string& path);

// INVALID_ARGUMENT, naming `field`, unless `path` is absolute and has no "..".
Status CheckHostPath(std::string_view field, const std::string& path);

// Gives everything below `folder` to the pod's fsGroup, by its fsGroupChangePolicy; OK for a pod
// without fsGroup. `folder` may be on a file system that hangs. If it takes long, events
// VolumePermissionChangeInProgress of the pod report it, as from the kubelet. CANCELLED, partly
// done: the process ends.
Status ApplyPodFsGroup(Host& host, const api::Pod& pod, const std::string& folder);

// The usage of a whole file system.
VolumePlugin::Stats StatsOf(const platform::FileSystemUsage& usage);

}  // namespace berth::volume
