// Detects and detaches FUSE mounts whose server process has ended (dead mounts).
//
// On a dead mount and on all binds of it every call fails with ENOTCONN. Pods that use a dead mount
// keep it, because another file system in its place would not have their open files. But drivers
// fail if they look at a dead mount before they unmount it, and no other pod may get it. So a dead
// mount is detached before its volume is unmounted or mounted for another pod.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "platform/mounts/fuse_watch.h"
#include "platform/mounts/mounter.h"

namespace berth::node {

// Detaches (MNT_DETACH) the mount at `path` if it is dead. `recorded` is the mount that the record
// says is there; any other mount is left alone (docs/design.md, rule 7). nullopt: the record does
// not say. OK if there is nothing to detach, or `path` is "".
base::Status DetachDeadMount(platform::Mounter& mounter, const std::string& path,
                             const std::optional<MountIdentity>& recorded);

// "its FUSE mount (fuse.glusterfs from 'server:/vol') is lost: process 42 'glusterfs' was killed by
// signal 9 (SIGKILL)". `pod_name` returns the "namespace/name" of a pod's uid, or "".
std::string DescribeLostMount(const platform::LostFuse& lost,
                              const std::function<std::string(const std::string& uid)>& pod_name);

}  // namespace berth::node
