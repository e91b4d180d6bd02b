// A copy of this process with one thread that waits for orders to fork workers.
//
// A fork of a process with many threads makes that process slow: until each of its pages has been
// copied, every first write to one is a page fault that interrupts all cores on which its threads
// run. In a burst of mounts this was a fifth of the block agent's processor time. The template is
// forked once, best before this process has threads and much memory, and pays for all later forks.
//
// This process sends the template a worker's end of a socket. The template forks the worker, and
// answers with its process id and a descriptor of pidfd_open(2).
//
// The template ends when this process ends or closes its socket. It reads no device and no file, so
// it hangs only if the kernel does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Thread-safe.
class ForkTemplate {
 public:
  // The function that a worker runs, with its end of the socket. It must not log, nor use anything
  // that another thread of this process uses, and it has no other descriptor. All signals are
  // blocked.
  using Main = std::function<void(int socket)>;

  explicit ForkTemplate(Main main) : main_(std::move(main)) {}
  ~ForkTemplate();
  ForkTemplate(const ForkTemplate&) = delete;
  ForkTemplate& operator=(const ForkTemplate&) = delete;

  struct Worker {
    pid_t pid = -1;
    base::UniqueFd socket;  // this process's end, of type SOCK_SEQPACKET
    base::UniqueFd ended;   // of pidfd_open(2); the template reaps the worker
  };

  // Makes the template, if there is none. Else the first StartWorker does. INTERNAL or
  // RESOURCE_EXHAUSTED: the kernel refused; a later call tries again.
  base::Status Prepare();

  // Errors as above; messages begin with `what`. A template that died is replaced.
  base::StatusOr<Worker> StartWorker(std::string_view what);

 private:
  base::Status PrepareLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::StatusOr<Worker> OrderWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTemplate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Main main_;
  base::Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = -1;
  base::UniqueFd control_ ABSL_GUARDED_BY(mutex_);  // invalid: there is no template
};

}  // namespace berth::platform
