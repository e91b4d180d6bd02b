// A container's subPath of a volume: one more bind mount, made so that no symlink in the volume
// leads out.
//
// What the container writes into its volume is hostile: between a check of a path and a mount by
// that path it may swap a folder for a symlink. So the subPath is resolved once, by descriptor
// (openat2 with RESOLVE_BENEATH), and the descriptor is what is mounted:
//
//   <volume>/<subPath> ─ bind ─▶ pods/<uid>/volume-subpaths/<volume>/<container>/<index>
//                      ─ bind ─▶ the container
//
// Thread-safe for different targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "volume/paths.h"

namespace berth::node {

struct SubPathRequest {
  std::string volume_path;  // the published volume, a folder
  std::string sub_path;     // relative, without ".."; missing folders are made
  std::string target;       // Paths::PodSubPath; made as the kind of thing that sub_path is
  bool read_only = false;
};

// The path that a runtime handler is asked for in place of `sub_path` of a volume that it mounts:
// nothing is there on the host, and the handler resolves it beneath the volume.
// INVALID_ARGUMENT: it is not relative, or has "..".
base::StatusOr<std::string> DeferredSubPath(const std::string& volume_path,
                                            std::string_view sub_path);

// Returns the target, to be mounted into the container. Replaces what an earlier start of the
// container mounted there, because the subPath may lead elsewhere by now. INVALID_ARGUMENT: an
// absolute path or ".."; PERMISSION_DENIED: the subPath leads out of the volume; DEADLINE_EXCEEDED:
// the volume does not answer.
base::StatusOr<std::string> PrepareSubPath(platform::Mounter& mounter,
                                           const SubPathRequest& request);

// Unmounts and removes the subPath mounts of these volumes of a pod, for all of its containers. It
// is OK if there are none. FAILED_PRECONDITION: one is busy.
base::Status ReleaseSubPaths(platform::Mounter& mounter, const volume::Paths& paths,
                             std::string_view pod_uid, const std::vector<std::string>& volumes);

// The volumes of a pod that have subPath mounts.
base::StatusOr<std::vector<std::string>> SubPathVolumes(const volume::Paths& paths,
                                                        std::string_view pod_uid);

// Unmounts whatever is mounted beneath `folder` (not on itself), the newest first. Containers with
// Bidirectional propagation leave mounts inside of volumes, which would keep these busy for ever.
base::Status UnmountBeneath(platform::Mounter& mounter, std::string_view folder);

}  // namespace berth::node
