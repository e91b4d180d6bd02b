// Tells when entries of a folder come and go (inotify).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct WatchOptions {
  // How deep subfolders are followed; 0: the folder alone.
  int depth = 16;
  // At most one call in this time: it comes at the end of a window that the first change opens, so
  // that the last change of a burst is never lost. Within it the kernel's queue is not even read.
  std::chrono::milliseconds window{0};
  // Names that begin with '.' tell nothing and are not followed.
  bool skip_dot_names = false;
  // A change of mode, owner or times tells, too.
  bool attributes = false;
  // The folder is made whenever it is not there, at the start and later, with mode 0755. What keeps
  // it from being made or read is trouble, and tried again every second.
  bool keep_folder = false;
  // How often it is looked whether the path still leads to the folder that is watched: nothing
  // announces that one of its parents was renamed or mounted over.
  std::chrono::milliseconds recheck{5000};
  // Told, on the watch's thread, when changes may have been missed or may be missed from now on:
  // the kernel's queue overflowed, watches ran out, or the folder itself or a parent went. In each
  // case the folder is to be read anew, and the calls that this needs come by themselves: while
  // watches lack, one every second. Without it they are logged.
  std::function<void(const base::Status& why)> on_trouble = nullptr;
};

class FolderWatch {
 public:
  virtual ~FolderWatch() = default;
  // Has the call made once more, a window after `delay` at the earliest, changes or none. From any
  // thread.
  virtual void LookAgain(std::chrono::milliseconds delay = {}) = 0;
};

// Calls `on_change` on a thread of its own after entries of `path` (a folder that exists, but for
// keep_folder) or of its subfolders were made, removed, moved or written, and once at the start.
// Several changes may come as one call: read the folder. The subfolders that are there at a call
// are watched. What is behind a symlink or a mount inside is not followed. Destroying the watch
// waits for a running call.
base::StatusOr<std::unique_ptr<FolderWatch>> WatchFolder(const std::string& path,
                                                         std::function<void()> on_change,
                                                         WatchOptions options = {});

}  // namespace berth::platform
