// The config.json of a container that is about to be created (OCI runtime specification): finds its
// mounts of deferred volumes, and replaces the sources of these mounts.
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

// A mount of a container whose source is a volume, or a path inside one.
struct DeferredMount {
  size_t mount = 0;      // its index in the config's "mounts"
  size_t target = 0;     // the volume's index in the list of targets
  std::string sub_path;  // "" for the volume itself
};

// A volume's target. Its path may contain a symlink, but containerd writes the resolved path into
// the config, so both are kept.
struct KnownTarget {
  std::string path;
  std::string resolved;  // the same without symlinks
};

// Finds the bind mounts at or below the targets. INVALID_ARGUMENT: the text is no config.
// FAILED_PRECONDITION: the config was rewritten before, because its sources are in `graft_folder`.
// RESOURCE_EXHAUSTED: there are too many.
base::StatusOr<std::vector<DeferredMount>> FindDeferred(const base::Json& config,
                                                        const std::vector<KnownTarget>& targets,
                                                        std::string_view graft_folder);

base::StatusOr<base::Json> ReadConfig(std::string_view text);

// Sets the source of mount number `mount`.
void SetSource(base::Json& config, size_t mount, std::string source);

}  // namespace berth::crust
