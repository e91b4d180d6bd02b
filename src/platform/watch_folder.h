// Tells when entries of a folder come and go (inotify).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

class FolderWatch {
 public:
  virtual ~FolderWatch() = default;
};

// Calls `on_change` on a thread of its own after entries of `path` (a folder that exists) or of its
// subfolders were made, removed, moved or written, and once at the start. Several changes may come
// as one call: read the folder. An inotify overflow is such a call too. Destroying the watch waits
// for a running call. Subfolders are followed down to `depth`; 0: the folder alone.
base::StatusOr<std::unique_ptr<FolderWatch>> WatchFolder(const std::string& path,
                                                         std::function<void()> on_change,
                                                         int depth = 16);

}  // namespace berth::platform
