// How exports.h watches its daemons: their deaths, and exports that nothing uses.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/pause.h"
#include "block/proxy/exports.h"
#include "platform/processes/process_end.h"

namespace berth::block::proxy {

using base::Quote;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kRetryPause{500};  // after a poll that failed
constexpr seconds kUnusedTime{120};  // longer than an agent takes to attach a device to an export

// Whether the volume cannot be shown again before the agent sends its settings again.
bool NeedsSettings(const Export& record) {
  return !record.volume.program.empty() && record.volume.path.empty() &&
         record.volume.settings.is_null();
}

}  // namespace

void Exports::HandleDeath(const std::string& id, const DaemonId& died, const std::string& how) {
  const auto hold = keys_.LockExclusive(id);
  if (!hold.ok()) return;  // the holder of the key or the next round handles the death
  std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state != Export::State::kServing ||
      record->daemon.pid != died.pid || record->daemon.start_time != died.start_time) {
    return;
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
    return;
  }
  LOG_ERROR("volume {} is quarantined: {}", Quote(image), record->reason);
  if (!safe) return;
  if (NeedsSettings(*record)) {
    // The agent's next call brings the settings, and shows the volume as a new one.
    const base::Status stopped = StopExport(*record, /*at_once=*/true);
    const base::Status forgotten = stopped.ok() ? ForgetExport(*record) : stopped;
    if (!forgotten.ok()) LOG_ERROR("volume {}: {}", Quote(image), base::ToString(forgotten));
    return;
  }
  Export anew = *record;
  ++anew.generation;
  if (const auto shown = StartExport(std::move(anew)); !shown.ok()) {
    LOG_ERROR("volume {} is not shown again: {}", Quote(image), base::ToString(shown.status()));
    return;
  }
  LOG_INFO("volume {} is shown again: no write can have been lost", Quote(image));
}

void Exports::WakeWatcher() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void Exports::CloseUnused() {
  std::map<std::string, DaemonId> unused;
  for (const Export& record : List()) {
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
    DaemonId daemon;
    base::UniqueFd process;
  };
  auto next_look = steady_clock::now() + kUnusedTime;
  while (!stop.stop_requested()) {
    if (steady_clock::now() > next_look) {
      CloseUnused();
      next_look = steady_clock::now() + kUnusedTime;
    }
    std::vector<Watched> watched;
    for (const Export& record : List()) {
      if (record.state != Export::State::kServing) continue;
      const std::string id = IdOf(record.volume.store, record.volume.image);
      auto process = OpenDaemon(record.daemon);
      if (!process.ok()) {
        LOG_WARNING("volume {}: {}", Quote(record.volume.image), base::ToString(process.status()));
        continue;  // the next round looks again
      }
      if (!process->valid()) {
        HandleDeath(id, record.daemon, "ended");
        continue;
      }
      watched.push_back({id, record.daemon, *std::move(process)});
    }
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const Watched& one : watched) fds.push_back({one.process.get(), POLLIN, 0});
    // The time-out is needed because a death is skipped while another call holds the volume's key.
    if (poll(fds.data(), fds.size(), 5000) < 0) {
      // Memory or descriptors have run out.
      if (errno != EINTR) base::SleepFor(stop, kRetryPause);
      continue;
    }
    uint64_t drained = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &drained, sizeof drained);
    for (size_t i = 0; i < watched.size(); ++i) {
      if ((fds[i + 1].revents & POLLIN) == 0) continue;
      const auto end = platform::ReadWaitStatus(watched[i].daemon.pid, watched[i].process.get());
      waitpid(watched[i].daemon.pid, nullptr, WNOHANG);
      HandleDeath(watched[i].id, watched[i].daemon, platform::DescribeEnd(end));
    }
  }
}

}  // namespace berth::block::proxy
