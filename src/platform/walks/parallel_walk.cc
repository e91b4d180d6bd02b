#include "platform/walks/parallel_walk.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"

namespace berth::platform {
namespace {

using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::UniqueFd;

constexpr int kMaxWalkDepth = 1000;
constexpr size_t kMostWaiting = 256;  // folders and batches; each folder holds a descriptor
constexpr size_t kBatchNames = 512;   // names
constexpr unsigned kMostThreads = 8;

struct Folder {
  UniqueFd fd;
  int depth = 0;
};

// Some names of a folder: for each its type, then the name with a NUL.
struct Batch {
  std::string names;
  size_t count = 0;

  void Add(const char* name, unsigned char type) {
    names += static_cast<char>(type);
    names.append(name, std::char_traits<char>::length(name) + 1);
    ++count;
  }
};

// A whole folder (no batch), or some names of it.
struct FolderWork {
  std::shared_ptr<const Folder> folder;
  std::optional<Batch> batch;
};

class Walker {
 public:
  Walker(const ParallelWalk& walk, unsigned threads) : walk_(walk), threads_(threads) {}

  Status Run(UniqueFd root) {
    {
      const MutexLock lock(mutex_);
      waiting_.push_back(
          {std::make_shared<const Folder>(Folder{std::move(root), 0}), std::nullopt});
    }
    WorkUntilDone();
    // No helper is added any more: all work is done, or the walk has ended.
    for (std::jthread& helper : helpers_) helper.join();
    const MutexLock lock(mutex_);
    return failure_;
  }

 private:
  void WorkUntilDone() {
    while (std::optional<FolderWork> work = TakeWork()) {
      const Status done = DoWork(*work);
      const MutexLock lock(mutex_);
      --working_;
      if (!done.ok() && !ended_.exchange(true)) failure_ = done;
      if (working_ == 0 || ended_) changed_.NotifyAll();
    }
  }

  // nullopt: there is no work left, and none will come.
  std::optional<FolderWork> TakeWork() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    while (!ended_ && waiting_.empty() && working_ > 0) {
      ++idle_;
      changed_.Wait(mutex_);
      --idle_;
    }
    if (ended_ || waiting_.empty()) return std::nullopt;
    // It takes the newest folder, because that is the deepest and releases its descriptors soonest.
    FolderWork work = std::move(waiting_.back());
    waiting_.pop_back();
    ++working_;
    return work;
  }

  // False: the queue is full, and the caller must do the work.
  bool OfferWork(FolderWork& work) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    if (ended_) return true;
    if (waiting_.size() >= kMostWaiting) return false;
    waiting_.push_back(std::move(work));
    if (idle_ > 0) {
      changed_.NotifyOne();
    } else if (helpers_.size() + 1 < threads_) {
      StartHelper();
    }
    return true;
  }

  void StartHelper() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    try {
      helpers_.emplace_back([this] { WorkUntilDone(); });
    } catch (const std::system_error& error) {
      LOG_DEBUG("walk {} on one thread less: {}", base::Quote(walk_.name), error.what());
    }
  }

  Status DoWork(const FolderWork& work) {
    return work.batch ? VisitBatch(work.folder, *work.batch) : WalkFolder(work.folder);
  }

  Status WalkFolder(const std::shared_ptr<const Folder>& folder) {
    if (folder->depth > kMaxWalkDepth) {
      return base::Error(StatusCode::kResourceExhausted, "{}: folders are nested more than {} deep",
                         base::Quote(walk_.name), kMaxWalkDepth);
    }
    // Names are collected first, so that those of a large folder can be divided.
    Status failure;
    Batch batch;
    const auto offer_batch = [&] {
      if (!failure.ok()) return;
      FolderWork work{folder, std::exchange(batch, {})};
      if (!OfferWork(work)) failure = VisitBatch(folder, *work.batch);
    };
    const int error = ForEachEntry(folder->fd.get(), 0, [&](const char* name, unsigned char type) {
      if (batch.count == kBatchNames) offer_batch();
      batch.Add(name, type);
    });
    RETURN_IF_ERROR(failure);
    if (error != 0) {
      return ErrnoError(error, fmt::format("list a folder of {}", base::Quote(walk_.name)));
    }
    return VisitBatch(folder, batch);
  }

  Status VisitBatch(const std::shared_ptr<const Folder>& folder, const Batch& batch) {
    if (walk_.cancelled && walk_.cancelled()) {
      return base::Error(StatusCode::kCancelled, "{}: cancelled", base::Quote(walk_.name));
    }
    for (size_t at = 0; at < batch.names.size() && !ended_;) {
      const auto type = static_cast<unsigned char>(batch.names[at]);
      const char* name = batch.names.c_str() + at + 1;
      at += 2 + std::char_traits<char>::length(name);
      UniqueFd open;
      RETURN_IF_ERROR(walk_.visit(folder->fd.get(), name, type, &open));
      if (!open.valid()) continue;
      FolderWork below{std::make_shared<const Folder>(Folder{std::move(open), folder->depth + 1}),
                       std::nullopt};
      if (!OfferWork(below)) RETURN_IF_ERROR(WalkFolder(below.folder));
    }
    return base::OkStatus();
  }

  const ParallelWalk& walk_;
  const unsigned threads_;
  std::atomic<bool> ended_ = false;  // a visit failed; set under mutex_

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<FolderWork> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t working_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> helpers_;  // added under mutex_
};

}  // namespace

Status WalkInParallel(int root, const ParallelWalk& walk) {
  UniqueFd folder(openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    const int error = errno;
    return ErrnoError(error, fmt::format("open {}", base::Quote(walk.name)));
  }
  const unsigned threads = walk.threads != 0
                               ? walk.threads
                               : std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
  return Walker(walk, threads).Run(std::move(folder));
}

}  // namespace berth::platform
