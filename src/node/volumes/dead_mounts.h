// Mounts that nobody serves any more (FUSE).
//
// A dead mount answers every call with ENOTCONN, and so do all binds of it. Pods that use one keep
// it, because another file system in its place would be another tree under open files. But drivers
// that look at a dead mount before they unmount it fail, and no other pod may get it: so it is
// detached at once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "platform/mounts/fuse_watch.h"
#include "platform/mounts/mounter.h"

namespace berth::node {

// Detaches what is mounted at `path` if it is dead. `recorded`: what the record says stands there;
// anything else is left alone (DESIGN rule 7). None: the record does not say.
base::Status TakeAwayDead(platform::Mounter& mounter, const std::string& path,
                          const std::optional<MountIdentity>& recorded);

// "its FUSE mount (fuse.glusterfs from 'server:/vol') is lost: process 42 'glusterfs' was killed by
// signal 9 (SIGKILL)". `pod_name` gives the "namespace/name" of a pod's UID, or nothing.
std::string DescribeLost(const platform::LostFuse& lost,
                         const std::function<std::string(const std::string& uid)>& pod_name);

}  // namespace berth::node
