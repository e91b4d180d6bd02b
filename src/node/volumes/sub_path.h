// Mounts a container's subPath of a volume with one more bind mount. A symlink in the volume cannot
// make this mount show a file outside the volume.
//
// The content of a volume is not trusted, because a container may replace a folder by a symlink
// between the check of a path and a mount by that path. So the subPath is resolved once, to a
// descriptor (openat2 with RESOLVE_BENEATH), and the descriptor is mounted:
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
  std::string target;       // Paths::PodSubPath; made as a folder or a file, as sub_path is
  bool read_only = false;
};

// The path that the container gets for `sub_path` of a volume that the runtime handler mounts.
// Nothing exists there on the host; the handler resolves the path within the volume.
// INVALID_ARGUMENT: `sub_path` is not relative, or has "..".
base::StatusOr<std::string> MakeDeferredSubPath(const std::string& volume_path,
                                                std::string_view sub_path);

// Mounts the subPath at request.target, and returns the target, which the caller mounts into the
// container. An earlier mount at the target is removed first, because the subPath may lead
// elsewhere by now. INVALID_ARGUMENT: an absolute path or ".."; PERMISSION_DENIED: the subPath
// leads out of the volume; DEADLINE_EXCEEDED: the volume does not answer.
base::StatusOr<std::string> PrepareSubPath(platform::Mounter& mounter,
                                           const SubPathRequest& request);

// Unmounts and removes the subPath mounts of these volumes of a pod, for all of its containers. It
// is OK if there are none. FAILED_PRECONDITION: one is busy.
base::Status ReleaseSubPaths(platform::Mounter& mounter, const volume::Paths& paths,
                             std::string_view pod_uid, const std::vector<std::string>& volumes);

// The volumes of a pod that have subPath mounts.
base::StatusOr<std::vector<std::string>> ReadSubPathVolumes(const volume::Paths& paths,
                                                            std::string_view pod_uid);

// Unmounts all mounts beneath `folder` (not the one on it), the newest first. Containers with
// Bidirectional propagation leave mounts inside volumes, which would keep the volumes busy for
// ever. FAILED_PRECONDITION: one is busy.
base::Status UnmountBeneath(platform::Mounter& mounter, std::string_view folder);

}  // namespace berth::node
