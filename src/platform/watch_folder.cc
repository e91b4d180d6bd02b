#include "platform/watch_folder.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

constexpr uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE |
                             IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;
// A plugin folder holds a handful of subfolders; someone else's tree moved in must not take all
// watches.
constexpr size_t kMaxFolders = 4096;
// How often a folder that was removed is looked for again; nothing announces that it is back.
constexpr int kReappearMs = 1000;

class InotifyWatch : public FolderWatch {
 public:
  InotifyWatch(base::UniqueFd inotify, base::UniqueFd stop, std::string path, int depth,
               std::function<void()> on_change)
      : inotify_(std::move(inotify)),
        stop_(std::move(stop)),
        path_(std::move(path)),
        depth_(depth),
        on_change_(std::move(on_change)) {}

  ~InotifyWatch() override {
    const uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof(one)) < 0) {
      LOG_ERROR("stop the watch of {}: errno {}", base::Quote(path_), errno);
    }
    if (thread_.joinable()) thread_.join();
  }

  base::Status Start() {
    const int error = AddTree(path_, 0);
    if (error != 0) return ErrnoError(error, fmt::format("watch folder {}", base::Quote(path_)));
    thread_ = std::jthread([this] { Loop(); });
    return base::OkStatus();
  }

 private:
  void Loop() {
    on_change_();
    for (;;) {
      const bool lost = !folders_.contains(path_);
      std::array<pollfd, 2> fds = {{{.fd = inotify_.get(), .events = POLLIN, .revents = 0},
                                    {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
      const int n = poll(fds.data(), fds.size(), lost ? kReappearMs : -1);
      if (fds[1].revents != 0) return;
      if (n < 0 && errno != EINTR) {
        LOG_ERROR("watch of {} ended: errno {}", base::Quote(path_), errno);
        return;
      }
      bool changed = n > 0 && ReadEvents();
      if (lost && AddTree(path_, 0) == 0) changed = true;
      // Watches of new subfolders are in place before the caller reads them, so that nothing falls
      // between.
      if (changed) on_change_();
    }
  }

  // Takes all events that wait. True if there was one to tell of.
  bool ReadEvents() {
    alignas(inotify_event) std::array<char, 16384> buffer;
    bool any = false, rescan = false;
    for (;;) {
      const ssize_t n = read(inotify_.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      any = true;
      for (ssize_t at = 0; at < n;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if (event->mask & (IN_ISDIR | IN_Q_OVERFLOW | IN_MOVE_SELF)) rescan = true;
        if (event->mask & (IN_IGNORED | IN_MOVE_SELF)) Forget(event->wd, event->mask);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    if (rescan) AddTree(path_, 0);
    return any;
  }

  void Forget(int wd, uint32_t mask) {
    std::erase_if(folders_, [wd](const auto& entry) { return entry.second == wd; });
    if (mask & IN_MOVE_SELF) inotify_rm_watch(inotify_.get(), wd);
  }

  // Watches a folder and what is in it; 0 or an errno for `path` itself. Watching again changes
  // nothing.
  int AddTree(const std::string& path, int depth) {
    if (depth > depth_ || folders_.size() >= kMaxFolders) return ENOSPC;
    const int wd = inotify_add_watch(inotify_.get(), path.c_str(), kEvents);
    if (wd < 0) return errno;
    folders_[path] = wd;
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return errno;
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      // IN_ONLYDIR refuses what DT_UNKNOWN turns out to be.
      const bool folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
      if (folder && name != "." && name != "..") {
        AddTree(fmt::format("{}/{}", path, name), depth + 1);
      }
    }
    closedir(dir);
    return 0;
  }

  const base::UniqueFd inotify_;
  const base::UniqueFd stop_;
  const std::string path_;
  const int depth_;
  const std::function<void()> on_change_;
  std::map<std::string, int> folders_;  // the thread's own after Start
  std::jthread thread_;
};

}  // namespace

base::StatusOr<std::unique_ptr<FolderWatch>> WatchFolder(const std::string& path,
                                                         std::function<void()> on_change,
                                                         int depth) {
  base::UniqueFd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) return ErrnoError(errno, "inotify");
  base::UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoError(errno, "eventfd");
  auto watch = std::make_unique<InotifyWatch>(std::move(inotify), std::move(stop), path, depth,
                                              std::move(on_change));
  RETURN_IF_ERROR(watch->Start());
  return std::unique_ptr<FolderWatch>(std::move(watch));
}

}  // namespace berth::platform
