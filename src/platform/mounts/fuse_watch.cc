#include "platform/mounts/fuse_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <thread>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/processes/child.h"
#include "platform/processes/process_end.h"

namespace berth::platform {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The time between two checks of all connections, whether there was an event or not.
constexpr milliseconds kRepairInterval{60'000};
// The pause before a connection is checked again because its server has just ended, or because no
// process is seen to serve it although it answers: the last descriptor of a connection may close
// after its process has ended.
constexpr milliseconds kRetryPause{1'000};
constexpr int kTries = 10;
constexpr milliseconds kFuseAskTimeout{2'000};
// A child that gets no answer stays in the kernel, so the next child is sent only after this time.
constexpr milliseconds kSilentPause{600'000};
// A busy node changes its mount table all the time. So at least this time passes between two
// checks, and checks take at most a twentieth of the thread's time.
constexpr milliseconds kMinGap{100};
constexpr int kGapPerLook = 20;

using Mounts = std::map<uint64_t, std::string>;  // mount points by the mounts' ids

struct Connection {
  Mounts mounts;
  Mounts reported;  // the mounts that were reported as lost
  std::string type, source;
  std::set<pid_t> servers;
  bool sure = false;  // these processes certainly serve it
  std::vector<LostFuse::Ended> ended;
  bool lost = false;
  int tries = 0;  // to find out whether it is lost, since a process ended
  std::optional<steady_clock::time_point> silent;  // the time since which a child has got no answer
};

struct Process {
  FuseServer server;
  base::UniqueFd pidfd;
};

// The mount points that were not reported yet. A lost connection may get another mount later: a
// bind of the lost one, or a mount of the next connection, to which the kernel gave the same
// number.
std::vector<std::string> ListUnreported(const Connection& connection) {
  std::vector<std::string> points;
  for (const auto& [id, point] : connection.mounts) {
    const auto reported = connection.reported.find(id);
    if (reported == connection.reported.end() || reported->second != point) points.push_back(point);
  }
  return points;
}

bool IsServedAgain(const Connection& connection) {
  if (connection.sure) return !connection.servers.empty();
  return AskFuse(connection.mounts.rbegin()->second, kFuseAskTimeout) == FuseAnswer::kAnswers;
}

// The same connection as if it had never been lost.
Connection ForgetLoss(const Connection& connection) {
  return {.mounts = connection.mounts,
          .type = connection.type,
          .source = connection.source,
          .servers = connection.servers,
          .sure = connection.sure};
}

class Watch : public FuseWatch {
 public:
  Watch(base::UniqueFd table, base::UniqueFd stop, std::string folder,
        std::function<void(const LostFuse&)> on_lost)
      : table_(std::move(table)),
        stop_(std::move(stop)),
        beneath_(std::move(folder) + "/"),
        on_lost_(std::move(on_lost)),
        thread_([this] { RunLoop(); }) {}

  ~Watch() override {
    const uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof(one)) < 0)
      LOG_ERROR("stop the FUSE watch: errno {}", errno);
  }

 private:
  void RunLoop();
  void CheckConnections(bool everything);
  bool ReadTable();
  void UpdateServers();
  // Closes the pidfds of the processes that ended, and notes their end at the connections that they
  // served. True if there was one.
  bool NoteEndedServers(const std::vector<pollfd>& fds, const std::vector<pid_t>& pids);
  void SettleConnection(uint64_t id, Connection& connection);

  const base::UniqueFd table_;
  const base::UniqueFd stop_;
  const std::string beneath_;
  const std::function<void(const LostFuse&)> on_lost_;
  // Only the watch's thread uses these.
  std::map<uint64_t, Connection> connections_;
  std::map<pid_t, Process> processes_;
  std::jthread thread_;  // the last, so that it ends before the rest goes
};

void Watch::RunLoop() {
  CheckConnections(/*everything=*/true);
  auto last_look = steady_clock::now();
  auto last_repair = last_look;
  milliseconds gap = kMinGap;
  bool table_changed = false;
  for (;;) {
    const auto now = steady_clock::now();
    const bool retry = std::any_of(connections_.begin(), connections_.end(), [](const auto& entry) {
      return entry.second.tries > 0 && entry.second.tries < kTries;
    });
    auto due = last_repair + kRepairInterval;
    if (retry) due = std::min(due, last_look + kRetryPause);
    if (table_changed) due = std::min(due, last_look + gap);
    const auto wait =
        std::chrono::ceil<milliseconds>(std::max(due - now, steady_clock::duration()));

    std::vector<pollfd> fds = {
        {.fd = stop_.get(), .events = POLLIN, .revents = 0},
        {.fd = table_changed ? -1 : table_.get(), .events = POLLPRI, .revents = 0}};
    std::vector<pid_t> pids;
    for (const auto& [pid, process] : processes_) {
      pids.push_back(pid);
      fds.push_back({.fd = process.pidfd.get(), .events = POLLIN, .revents = 0});
    }
    const int n = poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
    if (n < 0 && errno != EINTR) {
      LOG_ERROR("the FUSE watch ended, because poll failed: errno {}", errno);
      return;
    }
    if (n > 0 && fds[0].revents != 0) return;
    if (n > 0 && fds[1].revents != 0) table_changed = true;
    const bool ended = n > 0 && NoteEndedServers(fds, pids);
    const auto begun = steady_clock::now();
    if (!ended && begun < due && !(table_changed && begun >= last_look + gap)) continue;
    const bool repair = begun >= last_repair + kRepairInterval;
    CheckConnections(ended || retry || repair);
    last_look = steady_clock::now();
    if (repair) last_repair = last_look;
    gap = std::max(kMinGap, std::chrono::ceil<milliseconds>(last_look - begun) * kGapPerLook);
    table_changed = false;
  }
}

void Watch::CheckConnections(bool everything) {
  const bool any_new = ReadTable();
  if (connections_.empty()) {
    processes_.clear();
    return;
  }
  const bool any_lost = std::any_of(connections_.begin(), connections_.end(),
                                    [](const auto& entry) { return entry.second.lost; });
  if (!any_new && !any_lost && !everything) return;
  UpdateServers();
  for (auto& [id, connection] : connections_) {
    if (!connection.lost) SettleConnection(id, connection);
  }
}

// Updates the connections' mounts. True if the table holds a mount that must be checked now.
bool Watch::ReadTable() {
  std::string text;
  if (lseek(table_.get(), 0, SEEK_SET) != 0) return false;
  if (const int error = base::ReadAll(table_.get(), kMaxMountTable, text); error != 0) {
    LOG_WARNING("the FUSE watch cannot read the mount table: errno {}", error);
    return false;
  }
  // Only the lines of FUSE mounts are parsed, because most mounts are of other types.
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.find(" - fuse") != std::string_view::npos) (lines += line) += '\n';
    begin = end + 1;
  }
  const auto table = ParseMountInfo(lines);
  if (!table.ok()) {
    LOG_WARNING("the FUSE watch cannot parse the mount table: {}", base::ToString(table.status()));
    return false;
  }
  for (auto& [id, connection] : connections_) connection.mounts.clear();
  bool any_new = false;
  for (const MountEntry& mount : *table) {
    if (!IsFuse(mount) || !mount.mount_point.starts_with(beneath_)) continue;
    const auto [entry, added] =
        connections_.try_emplace(ToFuseConnection(mount.major, mount.minor));
    any_new |= added;
    entry->second.mounts[mount.id] = mount.mount_point;
    entry->second.type = mount.fs_type;
    entry->second.source = mount.source;
  }
  std::erase_if(connections_, [](const auto& entry) { return entry.second.mounts.empty(); });
  for (auto& [id, connection] : connections_) {
    if (!connection.lost || ListUnreported(connection).empty()) continue;
    connection.lost = false;
    any_new = true;
  }
  return any_new;
}

void Watch::UpdateServers() {
  const FuseServers found = FindFuseServers();
  std::set<pid_t> all;
  for (auto& [id, connection] : connections_) {
    connection.sure = found.possible.empty();
    connection.servers = found.GetServers(id);
    // The next connection may get the number of a lost one, and its mount the number of the lost
    // mount.
    if (connection.lost && IsServedAgain(connection)) connection = ForgetLoss(connection);
    if (!connection.lost) all.insert(connection.servers.begin(), connection.servers.end());
  }
  std::erase_if(processes_, [&all](const auto& entry) { return !all.contains(entry.first); });
  for (const pid_t pid : all) {
    if (processes_.contains(pid)) continue;
    base::UniqueFd pidfd = OpenPid(pid);
    if (pidfd.valid()) {
      processes_[pid] = {.server = DescribeFuseServer(pid), .pidfd = std::move(pidfd)};
      continue;
    }
    for (auto& [id, connection] : connections_) connection.servers.erase(pid);
  }
}

bool Watch::NoteEndedServers(const std::vector<pollfd>& fds, const std::vector<pid_t>& pids) {
  bool any = false;
  for (size_t i = 0; i < pids.size(); ++i) {
    if (fds[fds.size() - pids.size() + i].revents == 0) continue;
    const auto process = processes_.find(pids[i]);
    const LostFuse::Ended ended{
        .server = process->second.server,
        .wait_status = ReadWaitStatus(pids[i], process->second.pidfd.get())};
    for (auto& [id, connection] : connections_) {
      if (connection.servers.erase(pids[i]) == 0) continue;
      connection.ended.push_back(ended);
      connection.tries = 0;
      connection.silent.reset();
    }
    processes_.erase(process);
    any = true;
  }
  return any;
}

void Watch::SettleConnection(uint64_t id, Connection& connection) {
  if (!connection.servers.empty() && connection.sure) {
    // Only one of several processes may have ended, as the parent of a daemon does.
    connection.ended.clear();
    connection.tries = 0;
    return;
  }
  const auto now = steady_clock::now();
  if (connection.silent.has_value() && now < *connection.silent + kSilentPause) return;
  const FuseAnswer answer = AskFuse(connection.mounts.rbegin()->second, kFuseAskTimeout);
  if (answer == FuseAnswer::kDead) {
    on_lost_({.connection = id,
              .mount_points = ListUnreported(connection),
              .type = connection.type,
              .source = connection.source,
              .ended = std::move(connection.ended)});
    connection.reported = connection.mounts;
    connection.ended.clear();
    connection.tries = 0;
    connection.lost = true;
    return;
  }
  if (answer == FuseAnswer::kSilent) connection.silent = now;
  // No retry is needed, because a process may serve the connection, and no process that may have
  // served it has ended.
  if (!connection.servers.empty() && connection.ended.empty()) return;
  if (++connection.tries >= kTries) connection.ended.clear();
}

}  // namespace

base::StatusOr<std::unique_ptr<FuseWatch>> WatchFuse(const std::string& folder,
                                                     std::function<void(const LostFuse&)> on_lost) {
  base::UniqueFd table(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!table.valid()) return ErrnoError(errno, "open /proc/self/mountinfo");
  base::UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoError(errno, "eventfd");
  return std::make_unique<Watch>(std::move(table), std::move(stop), folder, std::move(on_lost));
}

}  // namespace berth::platform
