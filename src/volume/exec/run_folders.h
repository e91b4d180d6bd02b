// What the agent shares with a program in a pod, since CRI's ExecSync has no standard input and
// argv holds no secrets: on a tmpfs in the kubelet folder, which a mount pod sees at the same path
// (its mounts propagate there, whenever it was made).
//
//   <kubelet>/plugin-runs/          tmpfs, 0700: bounded, in no file system's journal, without swap
//       <pid>.<random>/             0700, one run's of that process; gone when it ends
//           in  out  err  <n>       0600: standard streams (FIFOs, or files), secrets
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "volume/paths.h"

namespace berth::volume {

// One run's folder, with what is in it. Removed with this.
class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view name) const;
  // RESOURCE_EXHAUSTED: the tmpfs is full.
  base::Status Write(std::string_view name, std::string_view content) const;
  // The first `max_bytes` of a file of the run; nothing where there is none.
  std::string Read(std::string_view name, size_t max_bytes) const;

 private:
  const std::string path_;
};

class RunFolders {
 public:
  // Borrows both. The tmpfs is mounted when it is first needed.
  RunFolders(const Paths& paths, platform::Mounter& mounter) : paths_(paths), mounter_(mounter) {}

  base::StatusOr<std::unique_ptr<RunFolder>> Make();
  // Takes the tmpfs away, if there is one that no other process uses. Daemons keep what they hold
  // of it.
  void Close();

 private:
  base::Status MountIfMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Paths& paths_;
  platform::Mounter& mounter_;
  base::Mutex mutex_;
  bool cleaned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::volume
