#include "platform/files/watch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/folder_walk.h"

namespace berth::platform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE |
                             IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
// A plugin folder holds only a few subfolders. Because of the limit, a large tree that is moved
// into the folder by mistake does not use up all watches of the machine.
constexpr size_t kMaxFolders = 4096;
// The pause between two reads of the folders while the watched folder is missing or some folders
// have no watch. They are read without an event, because a folder without a watch causes none.
constexpr std::chrono::milliseconds kUnwatched(1000);
// How often one call reads events. That many reads get more events than the kernel's queue holds by
// default.
constexpr int kMaxReads = 64;
constexpr int kFolder = O_RDONLY | O_DIRECTORY;

class InotifyWatch : public FolderWatch {
 public:
  InotifyWatch(base::UniqueFd inotify, base::UniqueFd wake, std::string path,
               std::function<void()> on_change, WatchOptions options)
      : inotify_(std::move(inotify)),
        wake_(std::move(wake)),
        path_(std::move(path)),
        on_change_(std::move(on_change)),
        options_(std::move(options)),
        events_(kEvents | (options_.report_attributes ? IN_ATTRIB : 0)) {}

  ~InotifyWatch() override {
    stop_ = true;
    WakeThread();
    if (thread_.joinable()) thread_.join();
  }

  base::Status Start() {
    WatchTree();
    if (root_ < 0 && !options_.keep_folder) return trouble_;
    thread_ = std::jthread([this] { RunLoop(); });
    return base::OkStatus();
  }

  void RequestCall(std::chrono::milliseconds delay) override {
    {
      base::MutexLock lock(mutex_);
      requested_ = std::min(requested_, Clock::now() + delay + options_.window);
    }
    WakeThread();
  }

 private:
  void RunLoop() {
    ReportTrouble();
    on_change_();
    while (trouble_.ok() ? AwaitChange() : Sleep(std::max(options_.window, kUnwatched))) {
      const bool lost = root_ < 0, requested = TakeRequest();
      bool changed = ReadEvents() || requested;
      // New subfolders get their watches before the caller reads them, so that no change is missed
      // in between.
      if (rescan_ || !trouble_.ok()) {
        WatchTree();
        ReportTrouble();
        changed = changed || !lost || root_ >= 0;
      }
      if (!changed) continue;
      last_call_ = Clock::now();
      on_change_();
    }
  }

  // Waits for the end of a window that events open, or until a requested call is due, or until the
  // path leads to another folder. False: the watch ends.
  bool AwaitChange() {
    for (;;) {
      const Clock::time_point due = GetDueTime(), check = checked_ + options_.recheck_interval;
      const bool events = Poll(std::min(due, check), inotify_.get());
      if (stop_) return false;
      if (events) return Sleep(options_.window);
      if (Clock::now() >= due) return true;
      if (Clock::now() >= check && LeadsElsewhere()) return Sleep(options_.window);
    }
  }

  bool Sleep(std::chrono::milliseconds time) {
    const Clock::time_point end = Clock::now() + time;
    while (!stop_ && Clock::now() < end) Poll(end, -1);
    return !stop_;
  }

  // Waits until `fd` is readable (true), another thread wakes this one, or `until` has come.
  bool Poll(Clock::time_point until, int fd) {
    std::array<pollfd, 2> fds = {{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = fd, .events = POLLIN, .revents = 0}}};
    int timeout = -1;
    if (until != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
    }
    if (poll(fds.data(), fds.size(), timeout) <= 0) return false;
    uint64_t count;
    if (fds[0].revents != 0 && read(wake_.get(), &count, sizeof(count)) < 0) {
      LOG_DEBUG("watch of {}: woken twice", base::Quote(path_));
    }
    return fds[1].revents != 0;
  }

  void WakeThread() {
    const uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof(one)) < 0) {
      LOG_ERROR("wake the watch of {}: errno {}", base::Quote(path_), errno);
    }
  }

  Clock::time_point GetDueTime() {
    base::MutexLock lock(mutex_);
    if (requested_ == Clock::time_point::max()) return requested_;
    return std::max(requested_, last_call_ + options_.window);
  }

  // Whether a requested call is due.
  bool TakeRequest() {
    base::MutexLock lock(mutex_);
    if (requested_ > Clock::now()) return false;
    requested_ = Clock::time_point::max();
    return true;
  }

  // Reads the events that wait. True if one of them must be reported.
  bool ReadEvents() {
    alignas(inotify_event) std::array<char, 16384> buffer;
    bool any = false;
    for (int i = 0; i < kMaxReads; ++i) {
      const ssize_t n = read(inotify_.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      for (ssize_t at = 0; at < n;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if (HandleEvent(*event)) any = true;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return any;
  }

  // True if the event must be reported.
  bool HandleEvent(const inotify_event& event) {
    if (event.mask & IN_Q_OVERFLOW) {
      rescan_ = true;
      SendTrouble(
          base::Error(base::StatusCode::kResourceExhausted,
                      "watch folder {}: more changes than the kernel's queue of inotify events "
                      "holds (fs.inotify.max_queued_events); the folder is read again",
                      base::Quote(path_)));
      return true;
    }
    // This event follows the end of a watch, either because the folder is gone or because WatchTree
    // gave the watch up.
    if (event.mask & IN_IGNORED) {
      if (watches_.erase(event.wd) > 0) rescan_ = true;
      return false;
    }
    if (options_.skip_dot_names && event.len > 0 && event.name[0] == '.') return false;
    const bool gone = event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT);
    if (gone || event.mask & IN_ISDIR) rescan_ = true;
    if (gone && event.wd == root_) ReportRootGone();
    return true;
  }

  void ReportRootGone() {
    if (std::exchange(root_gone_, true)) return;
    SendTrouble(
        base::Error(base::StatusCode::kAborted,
                    "watch folder {}: it was removed, or replaced by another, which is read "
                    "again",
                    base::Quote(path_)));
  }

  // Whether the path leads to another folder than the watched one, so that the folders must be read
  // again. This is checked from time to time, because a change of a parent causes no event.
  bool LeadsElsewhere() {
    checked_ = Clock::now();
    struct stat named;
    if (stat(path_.c_str(), &named) == 0 && named.st_dev == root_device_ &&
        named.st_ino == root_inode_) {
      return false;
    }
    rescan_ = true;
    ReportRootGone();
    return true;
  }

  // Makes the watches match the folders that exist.
  void WatchTree() {
    const std::set<int> before = std::exchange(watches_, {});
    rescan_ = false;
    trouble_ = base::OkStatus();
    root_ = -1;
    root_gone_ = false;
    checked_ = Clock::now();
    if (const base::UniqueFd fd = OpenRoot(); fd.valid()) {
      root_ = WatchTreeAt(fd.get(), 0);
      // If the folder was moved away before it was watched, there was no event.
      if (trouble_.ok() && !SetRoot(fd.get())) trouble_ = MakeTrouble(ESTALE, "");
    }
    for (const int wd : before) {
      if (!watches_.contains(wd)) inotify_rm_watch(inotify_.get(), wd);
    }
  }

  base::UniqueFd OpenRoot() {
    base::UniqueFd fd(open(path_.c_str(), kFolder | O_CLOEXEC));
    if (!fd.valid() && errno == ENOENT && options_.keep_folder) {
      LOG_INFO("making folder {}, because it is missing", base::Quote(path_));
      trouble_ = MakeFolders(path_, 0755);
      fd.Reset(open(path_.c_str(), kFolder | O_CLOEXEC));
    }
    if (fd.valid()) {
      trouble_ = base::OkStatus();
    } else if (trouble_.ok()) {
      trouble_ = MakeTrouble(errno, "");
    }
    return fd;
  }

  // False: the path leads elsewhere now.
  bool SetRoot(int fd) {
    struct stat watched, named;
    if (fstat(fd, &watched) != 0 || stat(path_.c_str(), &named) != 0) return false;
    root_device_ = watched.st_dev;
    root_inode_ = watched.st_ino;
    return watched.st_dev == named.st_dev && watched.st_ino == named.st_ino;
  }

  // Watches the folder `fd` and its subfolders; returns its watch, or -1. To watch a folder twice
  // changes nothing. The watch begins before the names are read, so that an entry that is made
  // meanwhile causes an event.
  int WatchTreeAt(int fd, int depth) {
    if (watches_.size() >= kMaxFolders) {
      trouble_ = base::Error(base::StatusCode::kResourceExhausted,
                             "watch folder {}: it has more than {} subfolders; some are read every "
                             "second",
                             base::Quote(path_), kMaxFolders);
      return -1;
    }
    const int wd =
        inotify_add_watch(inotify_.get(), fmt::format("/proc/self/fd/{}", fd).c_str(), events_);
    if (wd < 0) {
      trouble_ = MakeTrouble(errno, errno == ENOSPC ? " (fs.inotify.max_user_watches)" : "");
      return -1;
    }
    watches_.insert(wd);
    const int error = ForEachEntry(fd, 0, [&](const char* name, unsigned char type) {
      // If a DT_UNKNOWN entry is no folder, O_DIRECTORY refuses it.
      if (type == DT_DIR || type == DT_UNKNOWN) WatchSubfolder(fd, name, depth + 1);
    });
    if (error != 0) trouble_ = MakeTrouble(error, "");
    return wd;
  }

  void WatchSubfolder(int parent, const char* name, int depth) {
    if (depth > options_.max_depth || (options_.skip_dot_names && name[0] == '.')) return;
    const base::UniqueFd fd = OpenWithinMount(parent, name, kFolder);
    if (fd.valid()) {
      WatchTreeAt(fd.get(), depth);
    } else if (errno == EMFILE || errno == ENFILE || errno == EACCES) {
      trouble_ = MakeTrouble(errno, fmt::format(": open {}", base::Quote(name)));
    }
  }

  base::Status MakeTrouble(int error, std::string_view what) const {
    return ErrnoError(error, fmt::format("watch folder {}{}", base::Quote(path_), what));
  }

  // Each trouble is reported once, and not each time that the folders are read.
  void ReportTrouble() {
    if (trouble_ != reported_ && !trouble_.ok()) SendTrouble(trouble_);
    reported_ = trouble_;
  }

  void SendTrouble(const base::Status& trouble) {
    if (options_.on_trouble) return options_.on_trouble(trouble);
    LOG_WARNING("{}", base::ToString(trouble));
  }

  const base::UniqueFd inotify_;
  const base::UniqueFd wake_;
  const std::string path_;
  const std::function<void()> on_change_;
  const WatchOptions options_;
  const uint32_t events_;
  std::atomic<bool> stop_ = false;
  base::Mutex mutex_;
  Clock::time_point requested_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  // After Start only the watch's thread uses these.
  Clock::time_point last_call_;  // when on_change_ was last called
  std::set<int> watches_;
  int root_ = -1;
  dev_t root_device_ = 0;
  ino_t root_inode_ = 0;
  Clock::time_point checked_;  // when it was last checked that the path leads to the watched folder
  bool root_gone_ = false;
  bool rescan_ = false;   // the watched folders may have changed
  base::Status trouble_;  // why a folder has no watch
  base::Status reported_;
  std::jthread thread_;
};

}  // namespace

base::StatusOr<std::unique_ptr<FolderWatch>> WatchFolder(const std::string& path,
                                                         std::function<void()> on_change,
                                                         WatchOptions options) {
  base::UniqueFd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return ErrnoError(errno, "inotify");
  base::UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError(errno, "eventfd");
  auto watch = std::make_unique<InotifyWatch>(std::move(inotify), std::move(wake), path,
                                              std::move(on_change), std::move(options));
  RETURN_IF_ERROR(watch->Start());
  return std::unique_ptr<FolderWatch>(std::move(watch));
}

}  // namespace berth::platform
