#include "platform/walks/long_work.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using FileSystemId = std::pair<uint32_t, uint32_t>;  // major, minor
using Body = std::function<Status(int folder, LongWork& work)>;

constexpr milliseconds kTick(50);
constexpr std::chrono::seconds kCancelPatience(10);
constexpr unsigned kFirstOwnDescriptor = 3;  // all share the standard streams

// The file systems with work that was given up and has not ended, once for each such work.
struct GivenUp {
  base::Mutex mutex;
  std::multiset<FileSystemId> on ABSL_GUARDED_BY(mutex);
};

GivenUp& GetGivenUp() {
  static GivenUp& given_up = *new GivenUp;  // never destroyed: work may outlive main
  return given_up;
}

bool IsGivenUpOn(const FileSystemId& id) {
  GivenUp& global = GetGivenUp();
  const MutexLock lock(global.mutex);
  return global.on.contains(id);
}

struct FolderId {
  FileSystemId file_system;
  uint64_t inode = 0;
  bool operator==(const FolderId&) const = default;
};

// Identifies a folder without a request to the server of its file system.
StatusOr<FolderId> ReadFolderId(int folder) {
  struct statx st = {};
  if (statx(folder, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) != 0) {
    return ErrnoError(errno, "look at a folder");
  }
  return FolderId{.file_system = {st.stx_dev_major, st.stx_dev_minor}, .inode = st.stx_ino};
}

class Work final : public LongWork {
 public:
  Work(std::string what, const FolderId& id) : what_(std::move(what)), id_(id) {}

  void CountOne() override { done_.fetch_add(1, std::memory_order_relaxed); }

  bool cancelled() override {
    signs_.fetch_add(1, std::memory_order_relaxed);
    return cancelled_;
  }

  bool AskCaller(const std::function<bool()>& question) override {
    const MutexLock lock(question_mutex_);
    return waited_for_ && question();
  }

  // Runs on the thread of the work.
  void RunBody(int callers_folder, Body body) {
    Status result = RunOnOwnTable(callers_folder, std::move(body));
    const MutexLock lock(mutex_);
    ended_ = true;
    result_ = std::move(result);
    changed_.NotifyAll();
    if (!given_up_) return;
    GivenUp& global = GetGivenUp();
    const MutexLock all(global.mutex);
    global.on.erase(global.on.find(id_.file_system));
  }

  // Runs on the thread that waits.
  Status Wait(const LongWorkOptions& options) {
    uint64_t signs = 0;
    auto alive = steady_clock::now();
    auto next_report = alive + options.progress_interval;
    for (;;) {
      const bool ended = WaitUntilEnded(std::min(options.patience, kTick));
      const auto now = steady_clock::now();
      const uint64_t done = done_;
      if (options.progress && now >= next_report && done > 0) {
        options.progress(done);
        next_report = now + options.progress_interval;
      }
      if (ended) return GetResult();
      if (const uint64_t seen = done + signs_; seen != std::exchange(signs, seen)) alive = now;
      if (!cancelled_ && options.cancelled && options.cancelled()) {
        cancelled_ = true;
        alive = now;
      }
      const milliseconds patience =
          cancelled_ ? std::min<milliseconds>(options.patience, kCancelPatience) : options.patience;
      if (now - alive < patience) continue;
      return GiveUp(
          Error(StatusCode::kDeadlineExceeded,
                "{}: its file system has not answered for {} s, after {} files and folders", what_,
                std::chrono::duration_cast<std::chrono::seconds>(now - alive).count(), done));
    }
  }

 private:
  static Status UnshareDescriptors() {
    // Higher descriptors are not even copied, so that none has to be closed, because closing may
    // block.
    if (close_range(kFirstOwnDescriptor, ~0U, CLOSE_RANGE_UNSHARE) == 0) return base::OkStatus();
    return ErrnoError(errno, "have descriptors of its own");
  }

  Status RunOnOwnTable(int callers_folder, Body body) {
    RETURN_IF_ERROR(UnshareDescriptors());
    // "self" is the main thread, which has the descriptor table of the waiting caller.
    const base::UniqueFd folder(open(fmt::format("/proc/self/fd/{}", callers_folder).c_str(),
                                     O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) {
      const int error = errno;
      return ErrnoError(error, fmt::format("{}: open the folder again", what_));
    }
    // If the work starts only after it was given up, that number may stand for another folder.
    ASSIGN_OR_RETURN(const FolderId found, ReadFolderId(folder.get()));
    if (cancelled_ || found != id_) {
      return Error(StatusCode::kCancelled, "{}: cancelled before it began", what_);
    }
    return body(folder.get(), *this);
  }

  bool WaitUntilEnded(milliseconds longest) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto deadline = steady_clock::now() + longest;
    const MutexLock lock(mutex_);
    while (!ended_ && changed_.WaitUntil(mutex_, deadline)) {
    }
    return ended_;
  }

  Status GetResult() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    return result_;
  }

  Status GiveUp(Status why) ABSL_LOCKS_EXCLUDED(mutex_, question_mutex_) {
    cancelled_ = true;
    {
      const MutexLock lock(question_mutex_);
      waited_for_ = false;
    }
    const MutexLock lock(mutex_);
    if (ended_) return result_;
    given_up_ = true;
    GivenUp& global = GetGivenUp();
    const MutexLock all(global.mutex);
    global.on.insert(id_.file_system);
    return why;
  }

  const std::string what_;
  const FolderId id_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> signs_ = 0;
  std::atomic<bool> cancelled_ = false;

  base::Mutex question_mutex_;
  bool waited_for_ ABSL_GUARDED_BY(question_mutex_) = true;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  Status result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

Status RunLongWork(int folder, const LongWorkOptions& options, Body body) {
  if (options.cancelled && options.cancelled()) {
    return Error(StatusCode::kCancelled, "{}: cancelled", options.what);
  }
  ASSIGN_OR_RETURN(const FolderId id, ReadFolderId(folder));
  if (IsGivenUpOn(id.file_system)) {
    return Error(StatusCode::kUnavailable,
                 "{}: its file system has not answered since this was last tried", options.what);
  }
  const auto work = std::make_shared<Work>(options.what, id);
  // Nobody can join this thread, because the kernel may never let it go. It shares only `work` with
  // its caller, and one that is given up keeps further work from its file system (IsGivenUpOn).
  try {
    std::thread([work, folder, body = std::move(body)]() mutable {
      pthread_setname_np(pthread_self(), "long-work");
      work->RunBody(folder, std::move(body));
    }).detach();
  } catch (const std::system_error& error) {
    return Error(StatusCode::kResourceExhausted, "{}: no thread: {}", options.what, error.what());
  }
  return work->Wait(options);
}

}  // namespace berth::platform
