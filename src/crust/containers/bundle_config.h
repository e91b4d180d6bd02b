// The config.json of a container that is about to be created (OCI runtime specification): finds its
// mounts of deferred volumes, and replaces the sources of these mounts.
//
// The functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::crust {

// A mount of a container whose source is a deferred volume, or a path inside one.
struct DeferredMount {
  size_t mount = 0;      // its index in the config's "mounts"
  size_t target = 0;     // the volume's index in the list of targets
  std::string sub_path;  // "" for the volume itself
  // Not empty: the source is this path, without symlinks, where the kubelet mounted a subPath of
  // the volume. Which one, only the mount table says (kubelet_sub_path.h); `sub_path` is "".
  std::string bound;
};

// A volume's target. Its path may contain a symlink, but containerd writes the resolved path into
// the config, so both are kept.
struct KnownTarget {
  std::string path;
  std::string resolved;  // the same without symlinks
  // Where the kubelet mounts subPaths of the volume, likewise; "": nowhere.
  std::string sub_paths;
  std::string resolved_sub_paths;
};

// Finds the bind mounts whose source is at or below a target, or below a folder of the kubelet's
// mounts of its subPaths. FAILED_PRECONDITION: a source is in
// `graft_folder`, so an earlier create changed the config. RESOURCE_EXHAUSTED: there are more than
// kMostMounts (base/ipc/crust_call.h).
base::StatusOr<std::vector<DeferredMount>> FindDeferredMounts(
    const base::Json& config, const std::vector<KnownTarget>& targets,
    std::string_view graft_folder);

// Parses the text of a config.json. Any error: the text is no JSON object, is too long, or its
// "mounts" are no list.
base::StatusOr<base::Json> ReadConfig(std::string_view text);

// Sets the source of the mount with index `mount`, which must exist.
void SetSource(base::Json& config, size_t mount, std::string source);

}  // namespace berth::crust
