// Makes folders that the agent shares with a program in a pod, because CRI's ExecSync has no
// standard input and argv must hold no secrets. They are on a tmpfs in the kubelet folder, which a
// mount pod sees at the same path, because later mounts propagate to the pod.
//
//   <kubelet>/plugin-runs/          tmpfs, 0700: bounded, in no file system's journal, without swap
//       <pid>.<random>/             0700, for one run of that process; removed when the run ends
//           in  out  err  <n>       0600: standard streams (FIFOs, or files), secrets
//           began                   0600: empty; the run has begun, or never will
//                                   (container_exec.h)
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

// The folder of one run, with its content. The destructor removes it.
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
  // Reads the first `max_bytes` of a file of the run; "" if there is none.
  std::string Read(std::string_view name, size_t max_bytes) const;

 private:
  const std::string path_;
};

class RunFolders {
 public:
  // Borrows both. The tmpfs is mounted when the first folder is made.
  RunFolders(const Paths& paths, platform::Mounter& mounter) : paths_(paths), mounter_(mounter) {}

  base::StatusOr<std::unique_ptr<RunFolder>> MakeFolder();
  // Removes the tmpfs, if it exists and no other process has a run in it. Daemons keep the files
  // that they have open.
  void Close();

 private:
  base::Status MountIfMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Paths& paths_;
  platform::Mounter& mounter_;
  base::Mutex mutex_;
  bool cleaned_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_tmpfs_ ABSL_GUARDED_BY(mutex_) = false;  // never, if the Mounter is a double
};

}  // namespace berth::volume
