// The config.json of a container that is about to be created (OCI runtime specification): which of
// its mounts are of volumes that were deferred, and the same file with their sources elsewhere.
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::crust {

// One mount of a container whose source is a volume, or lies in one.
struct DeferredMount {
  size_t mount = 0;      // in the config's "mounts"
  size_t target = 0;     // in the targets that were asked for
  std::string sub_path;  // "" for the volume itself
};

// Volumes may be spelled by a path that leads through a symlink, and containerd spells it without.
struct KnownTarget {
  std::string path;
  std::string resolved;  // the same without symlinks
};

// The bind mounts below the targets. INVALID_ARGUMENT: the text is no config; FAILED_PRECONDITION:
// it was written anew before, for its sources are in `graft_folder`; RESOURCE_EXHAUSTED: too many.
base::StatusOr<std::vector<DeferredMount>> FindDeferred(const base::Json& config,
                                                        const std::vector<KnownTarget>& targets,
                                                        std::string_view graft_folder);

base::StatusOr<base::Json> ReadConfig(std::string_view text);

// Sets the source of mount number `mount`.
void SetSource(base::Json& config, size_t mount, std::string source);

}  // namespace berth::crust
