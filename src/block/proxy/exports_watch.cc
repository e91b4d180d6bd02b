// How exports.h watches its daemons: their deaths, exports that nothing uses, and what a growth or
// an earlier process left.
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/pause.h"
#include "block/proxy/exports.h"
#include "platform/processes/process_end.h"

namespace berth::block::proxy {

using base::Quote;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kRetryPause{500};  // after a failed poll, or while a volume's key is held
// How long a daemon may take to end its spare connections, because other calls for its volume are
// refused meanwhile; and the pause until it is asked again.
constexpr milliseconds kSpareAnswerTime{500};
constexpr milliseconds kSparePause{2000};
// Between two looks at all daemons: a death is skipped while another call holds the volume's key.
constexpr milliseconds kLookTime{5000};
constexpr seconds kUnusedTime{120};  // longer than an agent takes to attach a device to an export

// Whether the volume cannot be shown again before the agent sends its settings again.
bool NeedsSettings(const Export& record) {
  return !record.volume.program.empty() && record.volume.path.empty() &&
         record.volume.settings.is_null();
}

}  // namespace

void Exports::EndLeftBehind(const std::string& id) {
  const auto hold = keys_.LockExclusive(id);
  if (!hold.ok()) return;  // the call that has the key ends it first
  const std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state == Export::State::kQuarantined) return;
  if (record->state == Export::State::kServing) return EndSpareConnections(*record);
  if (const base::Status ended = EndInterrupted(*record); !ended.ok()) {
    LOG_ERROR("volume {}: {}", Quote(record->volume.image), base::ToString(ended));
  }
}

void Exports::EndBeside(const std::string& id) {
  const auto count = [this](int more) {
    base::MutexLock lock(mutex_);
    leftovers_running_ += more;
    leftovers_changed_.NotifyAll();
  };
  count(1);
  const bool posted = leftovers_.Post([this, id, count] {
    EndLeftBehind(id);
    count(-1);
  });
  if (posted) return;
  LOG_WARNING("what was interrupted of export {} is ended by its next call", id);
  count(-1);
}

void Exports::AwaitLeftovers(steady_clock::time_point deadline) {
  base::MutexLock lock(mutex_);
  while (leftovers_running_ > 0 && leftovers_changed_.WaitUntil(mutex_, deadline)) {
  }
}

void Exports::MarkDeath(const std::string& id, const platform::DaemonId& died,
                        const std::string& how) {
  platform::ReapDaemon(died);
  if (!QuarantineDead(id, died, how)) return;
  base::MutexLock lock(mutex_);
  QueueRepair(RepairKind::kShowAgain, {id, died});
}

bool Exports::QuarantineDead(const std::string& id, const platform::DaemonId& died,
                             const std::string& how) {
  const auto hold = keys_.LockExclusive(id);
  if (!hold.ok()) return false;  // the holder of the key or the next round handles the death
  std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state != Export::State::kServing ||
      record->daemon.pid != died.pid || record->daemon.start_time != died.start_time) {
    return false;
  }
  const std::string& image = record->volume.image;
  const auto used = IsUsed(*record);
  const bool safe = record->volume.read_only || (used.ok() && !*used);
  record->state = Export::State::kQuarantined;
  record->reason = fmt::format("its {} (process {}) {}", ProgramOf(record->volume), died.pid, how);
  if (!safe) {
    record->reason +=
        "; writes that were not flushed may be lost, so the proxy does not show it again: end the "
        "pods that use it, so that it is unmounted; its next mount replays the journal, and fsck "
        "tells whether anything is missing";
  }
  if (const base::Status written = WriteRecord(*record); !written.ok()) {
    LOG_ERROR("volume {}: {}", Quote(image), base::ToString(written));
    return false;
  }
  LOG_ERROR("volume {} is quarantined: {}", Quote(image), record->reason);
  return safe;
}

void Exports::QueueRepair(RepairKind kind, Repair repair) {
  repairs_.emplace(kind, std::move(repair));
  repairs_changed_.NotifyAll();
}

bool Exports::TryRepair(RepairKind kind, const Repair& repair, const std::stop_token& stop) {
  switch (kind) {
    case RepairKind::kShowAgain:
      return ShowAgain(repair.id, repair.daemon, stop);
    case RepairKind::kEndSpareConnections:
      return EndSpareConnectionsOf(repair.id, repair.daemon);
  }
  return true;
}

void Exports::RepairExports(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "repairs");
  for (;;) {
    RepairKind kind = RepairKind::kShowAgain;
    Repair repair;
    {
      base::MutexLock lock(mutex_);
      while (repairs_.empty() && !stop.stop_requested()) repairs_changed_.Wait(mutex_);
      if (stop.stop_requested()) return;
      auto next = repairs_.extract(repairs_.begin());
      kind = next.key();
      repair = std::move(next.mapped());
    }
    if (TryRepair(kind, repair, stop)) continue;
    {
      base::MutexLock lock(mutex_);
      QueueRepair(kind, std::move(repair));
    }
    base::SleepFor(stop, kind == RepairKind::kShowAgain ? kRetryPause : kSparePause);
  }
}

void Exports::EndSpareConnections(const Export& record) {
  const base::Status ended =
      EndUnusedConnections(CallOf(record), steady_clock::now() + kSpareAnswerTime);
  if (ended.ok()) return;
  LOG_WARNING("volume {}: a connection may be left: {}", Quote(record.volume.image),
              base::ToString(ended));
  const std::string id = IdOf(record.volume.store, record.volume.image);
  base::MutexLock lock(mutex_);
  // A volume waits once, however often its growth is tried.
  std::erase_if(repairs_, [&](const auto& waiting) {
    return waiting.first == RepairKind::kEndSpareConnections && waiting.second.id == id;
  });
  QueueRepair(RepairKind::kEndSpareConnections, {id, record.daemon});
}

bool Exports::EndSpareConnectionsOf(const std::string& id, const platform::DaemonId& daemon) {
  const auto hold = keys_.LockExclusive(id);
  if (!hold.ok()) return false;
  const std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state != Export::State::kServing ||
      record->daemon.pid != daemon.pid || record->daemon.start_time != daemon.start_time) {
    return true;  // the connections ended with the daemon
  }
  return EndUnusedConnections(CallOf(*record), steady_clock::now() + kSpareAnswerTime).ok();
}

bool Exports::ShowAgain(const std::string& id, const platform::DaemonId& died,
                        const std::stop_token& stop) {
  const auto hold = keys_.LockExclusive(id);
  if (!hold.ok()) return false;
  const std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state != Export::State::kQuarantined ||
      record->daemon.pid != died.pid || record->daemon.start_time != died.start_time) {
    return true;  // it was closed, and perhaps shown anew
  }
  const std::string& image = record->volume.image;
  if (NeedsSettings(*record)) {
    // The agent's next call brings the settings, and shows the volume as a new one.
    const base::Status removed = RemoveExport(*record);
    if (!removed.ok()) LOG_ERROR("volume {}: {}", Quote(image), base::ToString(removed));
    return true;
  }
  Export anew = *record;
  ++anew.generation;
  const auto shown = StartExport(std::move(anew), stop);
  if (shown.ok()) {
    LOG_INFO("volume {} is shown again: no write can have been lost", Quote(image));
    return true;
  }
  LOG_ERROR("volume {} is not shown again: {}", Quote(image), base::ToString(shown.status()));
  if (shown.status().code() == StatusCode::kCancelled && record->volume.read_only) {
    // The next process shows it. One for writing is forgotten, because nothing uses it: the next
    // mapping shows it.
    const base::Status kept = WriteRecord(*record);
    if (!kept.ok()) LOG_ERROR("volume {}: {}", Quote(image), base::ToString(kept));
  }
  return true;
}

void Exports::WakeWatcher() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void Exports::CloseUnused(const std::stop_token& stop) {
  std::map<std::string, platform::DaemonId> unused;
  for (const Export& record : List()) {
    if (stop.stop_requested()) return;
    const std::string id = IdOf(record.volume.store, record.volume.image);
    const auto used = IsUsed(record);
    if (record.state != Export::State::kServing || !used.ok() || *used) continue;
    const auto before = unused_.find(id);
    if (before == unused_.end() || before->second.pid != record.daemon.pid) {
      unused[id] = record.daemon;
      continue;
    }
    LOG_INFO("the export of volume {} is closed, because no loop device uses it",
             Quote(record.volume.image));
    const base::Status closed = Close(record.volume.store, record.volume.image);
    if (!closed.ok()) LOG_WARNING("{}", base::ToString(closed));
  }
  unused_ = std::move(unused);
}

void Exports::WatchDaemons(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "daemons");
  struct Watched {
    std::string id;
    platform::DaemonId daemon;
    base::UniqueFd process;
  };
  auto next_look = steady_clock::now() + kUnusedTime;
  while (!stop.stop_requested()) {
    if (steady_clock::now() > next_look) {
      CloseUnused(stop);
      next_look = steady_clock::now() + kUnusedTime;
    }
    std::vector<Watched> watched;
    for (const Export& record : List()) {
      if (record.state != Export::State::kServing) continue;
      const std::string id = IdOf(record.volume.store, record.volume.image);
      auto process = platform::OpenDaemon(record.daemon);
      if (!process.ok()) {
        LOG_WARNING("volume {}: {}", Quote(record.volume.image), base::ToString(process.status()));
        continue;  // the next round looks again
      }
      if (!process->valid()) {
        MarkDeath(id, record.daemon, "ended");
        continue;
      }
      watched.push_back({id, record.daemon, *std::move(process)});
    }
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const Watched& one : watched) fds.push_back({one.process.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), static_cast<int>(kLookTime.count())) < 0) {
      // Memory or descriptors have run out.
      if (errno != EINTR) base::SleepFor(stop, kRetryPause);
      continue;
    }
    uint64_t drained = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &drained, sizeof drained);
    for (size_t i = 0; i < watched.size(); ++i) {
      if ((fds[i + 1].revents & POLLIN) == 0) continue;
      const auto end = platform::ReadWaitStatus(watched[i].daemon.pid, watched[i].process.get());
      MarkDeath(watched[i].id, watched[i].daemon, platform::DescribeEnd(end));
    }
  }
}

}  // namespace berth::block::proxy
