// Reports changes of the entries of a folder (inotify).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct WatchOptions {
  // How deep subfolders are followed; 0: the folder alone.
  int max_depth = 16;
  // At most one call is made in this time: at the end of a window that the first change opens, so
  // that the last change of a burst is never lost. During the window not even the kernel's queue is
  // read.
  std::chrono::milliseconds window{0};
  // Names that begin with '.' cause no call and are not followed.
  bool skip_dot_names = false;
  // A change of mode, owner or times causes a call, too.
  bool report_attributes = false;
  // The watch makes the folder, with mode 0755, whenever it is missing, at the start and later.
  // If it cannot be made or read, that counts as trouble, and the watch tries again every second.
  bool keep_folder = false;
  // How often the watch checks that the path still leads to the watched folder, because no event
  // tells that one of its parents was renamed or mounted over.
  std::chrono::milliseconds recheck_interval{5000};
  // Called on the watch's thread when changes may have been missed or may be missed from now on:
  // the kernel's queue overflowed, watches ran out, or the folder itself or a parent is gone. In
  // each case the folder must be read again, and the calls that this needs come by themselves:
  // while watches are missing, one every second. Without this function the trouble is logged.
  std::function<void(const base::Status& why)> on_trouble = nullptr;
};

class FolderWatch {
 public:
  virtual ~FolderWatch() = default;
  // Requests one more call of `on_change`, at the earliest after `delay` and a window, whether
  // anything changes or not. May be called on any thread.
  virtual void RequestCall(std::chrono::milliseconds delay = {}) = 0;
};

// Calls `on_change` on a thread of its own once at the start, and after entries of `path` or of its
// subfolders were made, removed, moved or written. `path` must exist, unless keep_folder is set.
// One call may stand for several changes: read the folder. The subfolders that exist at a call are
// watched. Symlinks and mounts inside are not followed. Destroying the watch waits for a running
// call.
base::StatusOr<std::unique_ptr<FolderWatch>> WatchFolder(const std::string& path,
                                                         std::function<void()> on_change,
                                                         WatchOptions options = {});

}  // namespace berth::platform
