#include "block/proxy/exports.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"
#include "block/images/image_record.h"
#include "block/proxy/fuse_control.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"
#include "platform/processes/marked_processes.h"

namespace berth::block::proxy {

using base::Error;
using base::Quote;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr int kMostStarts = 2;                 // of a daemon that does not answer
constexpr seconds kEndTime{10};                // until what was killed has ended
constexpr seconds kLeftoverTime{2};            // until a new process serves beside its leftovers
constexpr milliseconds kStateAnswerTime{500};  // of a daemon that does not quit
constexpr milliseconds kConnectPause{5};

}  // namespace

std::string Exports::IdOf(const std::string& store, const std::string& image) {
  return base::Sha256Hex(fmt::format("{}\n{}", store, image)).substr(0, 24);
}

// A variable in the daemon's environment. It finds a daemon whose start was not recorded, and not
// the one of another proxy on this machine.
std::string Exports::MarkOf(const std::string& id) const {
  return fmt::format("BERTH_IO_PROXY_EXPORT={}/{}", options_.folder, id);
}

std::string Exports::FolderOf(const std::string& folder, const std::string& store) {
  return fmt::format("{}/exports/{}", folder, base::Sha256Hex(store).substr(0, 12));
}

std::string Exports::FileOf(const Export& record) const {
  return fmt::format("{}/{}/{}", FolderOf(options_.folder, record.volume.store), record.generation,
                     record.volume.image);
}
std::string Exports::RecordOf(const std::string& id) const {
  return fmt::format("{}/records/{}.json", options_.folder, id);
}
std::string Exports::SocketOf(const std::string& id) const {
  return fmt::format("{}/daemons/{}.qmp", options_.folder, id);
}

base::StatusOr<std::unique_ptr<Exports>> Exports::Open(Options options) {
  std::unique_ptr<Exports> exports(new Exports(std::move(options)));
  for (const char* folder : {"records", "exports", "daemons"}) {
    RETURN_IF_ERROR(
        platform::MakePrivateFolder(fmt::format("{}/{}", exports->options_.folder, folder)));
  }
  ASSIGN_OR_RETURN(exports->lock_, platform::LockFile(exports->options_.folder + "/lock"));
  ASSIGN_OR_RETURN(exports->boot_id_, platform::ReadBootId());
  exports->wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!exports->wake_.valid()) return platform::ErrnoError(errno, "make an eventfd");
  RETURN_IF_ERROR(MountFuseControl(exports->options_.folder));
  RETURN_IF_ERROR(exports->Recover());
  exports->AwaitLeftovers(steady_clock::now() + kLeftoverTime);
  exports->watching_ =
      std::jthread([raw = exports.get()](const std::stop_token& stop) { raw->WatchDaemons(stop); });
  exports->repairing_ = std::jthread(
      [raw = exports.get()](const std::stop_token& stop) { raw->RepairExports(stop); });
  return exports;
}

Exports::~Exports() {
  leftovers_.Stop();
  watching_.request_stop();
  repairing_.request_stop();
  WakeWatcher();
  base::MutexLock lock(mutex_);
  repairs_changed_.NotifyAll();
}

base::Status Exports::WriteRecord(const Export& record) {
  const std::string id = IdOf(record.volume.store, record.volume.image);
  RETURN_IF_ERROR(platform::WriteDurably<"block.proxy_export">(RecordOf(id), Encode(record)));
  base::MutexLock lock(mutex_);
  exports_[id] = record;
  return base::OkStatus();
}

base::Status Exports::ForgetExport(const Export& record) {
  const std::string id = IdOf(record.volume.store, record.volume.image);
  for (Export each = record; each.generation >= 0; --each.generation) {
    unlink(FileOf(each).c_str());
  }
  unlink(SocketOf(id).c_str());
  unlink(fmt::format("{}/daemons/{}.log", options_.folder, id).c_str());
  RETURN_IF_ERROR(platform::RemoveDurably<"block.proxy_export">(RecordOf(id)));
  base::MutexLock lock(mutex_);
  exports_.erase(id);
  return base::OkStatus();
}

std::optional<Export> Exports::FindExport(const std::string& id) const {
  base::MutexLock lock(mutex_);
  const auto it = exports_.find(id);
  return it == exports_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Export> Exports::List() const {
  base::MutexLock lock(mutex_);
  std::vector<Export> all;
  all.reserve(exports_.size());
  for (const auto& [id, record] : exports_) all.push_back(record);
  return all;
}

base::Status Exports::Recover() {
  // A damaged record is set aside after its daemon has ended, because no other record names the
  // daemon, which holds the lock of its image.
  ASSIGN_OR_RETURN(
      const platform::LoadedRecords<Export> loaded,
      platform::LoadRecords<Export>(
          options_.folder + "/records", {.on_damage = platform::OnDamage::kLeave}, DecodeExport,
          [](const Export& record) { return IdOf(record.volume.store, record.volume.image); }));
  for (const platform::DamagedRecord& damaged : loaded.damaged) {
    platform::KillMarkedProcesses(MarkOf(damaged.name), kEndTime);
    ASSIGN_OR_RETURN(const std::string aside, platform::SetRecordAside(damaged.path));
    LOG_ERROR("record {}: its daemon is ended, and it is set aside as {}", Quote(damaged.path),
              Quote(aside));
  }
  for (const Export& record : loaded.records) {
    const std::string id = IdOf(record.volume.store, record.volume.image);
    if (!platform::IsThisBoot(record.boot_id, boot_id_)) {
      RETURN_IF_ERROR(ForgetExport(record));
      continue;
    }
    {
      base::MutexLock lock(mutex_);
      exports_[id] = record;
    }
    switch (record.state) {
      case Export::State::kServing:
        if (const auto process = platform::OpenDaemon(record.daemon); !process.ok()) {
          LOG_WARNING("volume {}: {}", Quote(record.volume.image),
                      base::ToString(process.status()));
        } else if (process->valid()) {
          LOG_INFO("volume {}: process {} still shows it and is adopted",
                   Quote(record.volume.image), record.daemon.pid);
          if (!record.volume.server.empty()) EndBeside(id);  // a growth may have been interrupted
        } else {
          MarkDeath(id, record.daemon, "ended while no io-proxy ran");
        }
        break;
      case Export::State::kQuarantined:
        if (record.volume.read_only && record.lost.empty()) {
          base::MutexLock lock(mutex_);
          QueueRepair(RepairKind::kShowAgain, {id, record.daemon});
        }
        break;
      default:
        // A step was interrupted. Its caller calls again if it cannot be ended now.
        EndBeside(id);
        break;
    }
  }
  return base::OkStatus();
}

base::Status Exports::EndInterrupted(const Export& record) {
  if (record.state == Export::State::kClosing) return CloseExport(record);
  // One that was starting can be dropped, because no caller got it.
  return record.state == Export::State::kKilling ? KillExport(record) : RemoveExport(record);
}

base::StatusOr<Shown> Exports::ShowVolume(const Volume& volume) {
  RETURN_IF_ERROR(CheckImageName(volume.image));
  const std::string id = IdOf(volume.store, volume.image);
  ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(id));
  const std::optional<Export> before = FindExport(id);
  if (before.has_value()) {
    const Volume& shown = before->volume;
    const bool quarantined = before->state == Export::State::kQuarantined;
    // A daemon that could not say that it has flushed is asked again.
    if (quarantined && (before->lost.empty() || !CloseExport(*before).ok())) {
      return Error(StatusCode::kFailedPrecondition, "volume {} is quarantined: {}",
                   Quote(volume.image), before->reason);
    }
    if (before->state == Export::State::kServing) {
      // The file of a server's export only has the lock, and the node may reach it only at times.
      const bool is_file = volume.server.empty() && !volume.path.empty();
      if ((is_file && (shown.path != volume.path || shown.inode != volume.inode)) ||
          shown.server != volume.server || shown.export_name != volume.export_name ||
          shown.read_only != volume.read_only || shown.shared != volume.shared ||
          // The program that shows a file is this proxy's choice.
          (!is_file && shown.program != volume.program)) {
        return Error(StatusCode::kFailedPrecondition,
                     "volume {} is shown with other settings ({}): unmap it first",
                     Quote(volume.image),
                     shown.read_only ? "for reading"
                     : shown.shared  ? "shared"
                                     : "for writing");
      }
      RememberSettings(id, volume.settings);
      return InspectExport(*before);
    }
    if (!quarantined) RETURN_IF_ERROR(EndInterrupted(*before));
  }
  return StartExport({.volume = volume, .boot_id = boot_id_});
}

ExportCall Exports::CallOf(const Export& record) const {
  const std::string id = IdOf(record.volume.store, record.volume.image);
  return {.storage_daemon = options_.program,
          .mark = MarkOf(id),
          .socket = SocketOf(id),
          .log = fmt::format("{}/daemons/{}.log", options_.folder, id),
          .file = FileOf(record),
          .volume = record.volume,
          .daemon = record.daemon,
          .reconnect = options_.reconnect};
}

base::StatusOr<Shown> Exports::StartDaemonFor(Export& record, const base::UniqueFd& held,
                                              const std::stop_token& stop) {
  const bool is_qemu = record.volume.program.empty();
  const std::string file = FileOf(record);
  RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(file)), 0700));
  const base::UniqueFd made(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!made.valid()) return platform::ErrnoError(errno, "make " + Quote(file));
  for (int attempt = 1;; ++attempt) {
    unlink(CallOf(record).socket.c_str());
    RETURN_IF_ERROR(base::FaultPoint<"block.proxy_daemon.before">());
    ASSIGN_OR_RETURN(record.daemon, StartDaemonOf(CallOf(record), held.get()));
    RETURN_IF_ERROR(base::FaultPoint<"block.proxy_daemon.started">());
    RETURN_IF_ERROR(WriteRecord(record));
    ExportCall call = CallOf(record);
    call.stop = stop;
    const base::Status configured = AddExport(
        call, steady_clock::now() + (is_qemu ? options_.start_within : options_.program_within));
    // QEMU 7.2 sometimes sends its greeting and then no answer. Starting another daemon is safe,
    // because no device shows the volume yet.
    if (!is_qemu || configured.code() != StatusCode::kDeadlineExceeded || attempt == kMostStarts) {
      RETURN_IF_ERROR(configured);
      break;
    }
    LOG_WARNING("volume {}: {}: its daemon is started again", Quote(record.volume.image),
                base::ToString(configured));
    RETURN_IF_ERROR(StopExport(record));
  }
  ASSIGN_OR_RETURN(const Shown made_visible, InspectExport(record));
  // QEMU before 10.1 reads the next request into the buffer of a write that it has not finished,
  // so several requests at once corrupt the volume ("fuse: Copy write buffer content before
  // polling"). A loop device with direct I/O sends all its reads and writes asynchronously. Berth's
  // programs have a buffer for each request.
  if (is_qemu) {
    RETURN_IF_ERROR(LimitToOneRequest(options_.folder, static_cast<dev_t>(made_visible.device)));
  }
  return made_visible;
}

base::StatusOr<Shown> Exports::StartExport(Export record, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const base::UniqueFd held, OpenImage(record.volume));
  record.state = Export::State::kStarting;
  record.reason.clear();
  record.daemon = {};
  record.shown_on = 0;
  if (record.volume.server.empty() && !record.volume.path.empty()) {
    record.volume.program = options_.image_program;
  }
  RETURN_IF_ERROR(WriteRecord(record));
  const auto shown = StartDaemonFor(record, held, stop);
  if (!shown.ok()) {
    base::Status failed =
        base::Annotate(shown.status(), fmt::format("show volume {}", Quote(record.volume.image)));
    if (const base::Status removed = RemoveExport(record); !removed.ok()) {
      LOG_ERROR("volume {}: {}", Quote(record.volume.image), base::ToString(removed));
    }
    return failed;
  }
  record.state = Export::State::kServing;
  record.shown_on = shown->device;
  RETURN_IF_ERROR(WriteRecord(record));
  WakeWatcher();
  LOG_INFO("process {} of {} shows volume {}", record.daemon.pid, ProgramOf(record.volume),
           Quote(record.volume.image));
  return shown;
}

base::StatusOr<Shown> Exports::Resize(const std::string& store, const std::string& image,
                                      int64_t size) {
  const std::string id = IdOf(store, image);
  ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(id));
  const std::optional<Export> record = FindExport(id);
  if (!record.has_value() || record->state != Export::State::kServing) {
    return Error(StatusCode::kNotFound, "volume {} is not shown", Quote(image));
  }
  ASSIGN_OR_RETURN(Shown shown, InspectExport(*record));
  if (shown.size_bytes < size) {
    const base::Status grown =
        GrowExport(CallOf(*record), size, steady_clock::now() + options_.grow_within);
    RETURN_IF_ERROR(base::FaultPoint<"block.proxy_export.grown">());
    EndSpareConnections(*record);
    RETURN_IF_ERROR(grown);
    ASSIGN_OR_RETURN(shown, InspectExport(*record));
  }
  const base::Status known = ShowSizeToKernel(shown.path, shown.size_bytes);
  if (!known.ok()) LOG_WARNING("volume {}: {}", Quote(image), base::ToString(known));
  return shown;
}

base::StatusOr<Shown> Exports::InspectExport(const Export& record) const {
  return InspectFile(FileOf(record), options_.folder);
}

base::StatusOr<bool> Exports::IsUsed(const Export& record) const {
  return IsShownByLoop(FolderOf(options_.folder, record.volume.store), record.volume.image);
}

base::Status Exports::QuitExport(const Export& record) const {
  ASSIGN_OR_RETURN(const base::UniqueFd process, platform::OpenDaemon(record.daemon));
  if (!process.valid()) {
    return Error(StatusCode::kUnavailable, "process {} has ended already", record.daemon.pid);
  }
  const base::Status told = QuitDaemon(CallOf(record), steady_clock::now() + options_.end_within);
  // UNAVAILABLE: it may be ending since an earlier call.
  if (!told.ok() && told.code() != StatusCode::kUnavailable) return told;
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_daemon.flushed">());
  if (platform::WaitReadable(process.get(), steady_clock::now() + options_.end_within)) return told;
  // A program of Berth answers after the flush, but qemu-storage-daemon before it.
  if (told.ok() && !record.volume.program.empty()) {
    LOG_WARNING("process {} has flushed volume {}, but does not end", record.daemon.pid,
                Quote(record.volume.image));
    return told;
  }
  return Error(StatusCode::kDeadlineExceeded, "process {} does not end: {}", record.daemon.pid,
               base::ToString(told));
}

bool Exports::HasNothingToLose(const Export& record) const {
  return record.volume.read_only ||
         HasFlushed(CallOf(record), steady_clock::now() + kStateAnswerTime);
}

base::Status Exports::StopExport(const Export& record) {
  const std::string id = IdOf(record.volume.store, record.volume.image);
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_daemon.end">());
  base::Status ended = platform::KillDaemon(record.daemon, seconds(2));
  if (platform::KillMarkedProcesses(MarkOf(id), seconds(2)) > 0 && ended.ok()) {
    ended = Error(StatusCode::kDeadlineExceeded, "a daemon of volume {} does not end",
                  Quote(record.volume.image));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_daemon.ended">());
  for (Export each = record; each.generation >= 0; --each.generation) {
    const std::string file = FileOf(each);
    // The daemon did not end, so the FUSE connection is aborted: its users get errors.
    if (!ended.ok()) AbortFuseOf(options_.folder, file);
    RETURN_IF_ERROR(UnmountFile(file));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_export.unmounted">());
  return ended;
}

base::Status Exports::RemoveExport(const Export& record) {
  RETURN_IF_ERROR(StopExport(record));
  return ForgetExport(record);
}

base::Status Exports::Close(const std::string& store, const std::string& image) {
  const std::string id = IdOf(store, image);
  ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(id));
  const std::optional<Export> record = FindExport(id);
  if (!record.has_value()) return base::OkStatus();
  ASSIGN_OR_RETURN(const bool used, IsUsed(*record));
  if (used) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is still shown by a loop device",
                 Quote(image));
  }
  // The kill was asked for, so nothing is flushed any more and no loss is told.
  return record->state == Export::State::kKilling ? KillExport(*record) : CloseExport(*record);
}

base::Status Exports::CloseExport(Export record) {
  record.state = Export::State::kClosing;
  RETURN_IF_ERROR(WriteRecord(record));
  const base::Status quit = QuitExport(record);
  if (quit.code() == StatusCode::kDataLoss) {
    record.lost = fmt::format(
        "process {} could not flush it when it was closed, so writes that it answered may be lost "
        "({})",
        record.daemon.pid, base::Message(quit));
  } else if (quit.code() == StatusCode::kDeadlineExceeded && record.lost.empty() &&
             !HasNothingToLose(record)) {
    record.lost = fmt::format(
        "process {} has not said in time whether it could flush it, so writes that it answered may "
        "be lost, unless it says later that it could ({})",
        record.daemon.pid, base::Message(quit));
  }
  // After an earlier Close that did not wait long enough.
  const bool ended_flushed =
      quit.code() == StatusCode::kUnavailable && HasEndedFlushed(CallOf(record));
  if (!quit.ok() && !ended_flushed && !record.lost.empty()) {
    return QuarantineLost(std::move(record));
  }
  if (quit.code() == StatusCode::kFailedPrecondition) return quit;
  // A daemon that ended by itself, while no device showed the file, had no write that could be
  // lost.
  if (!quit.ok() && quit.code() != StatusCode::kUnavailable) {
    LOG_WARNING("process {}, which shows volume {}, does not end and is killed: {}",
                record.daemon.pid, Quote(record.volume.image), base::ToString(quit));
  }
  return RemoveExport(record);
}

base::Status Exports::QuarantineLost(Export record) {
  record.state = Export::State::kQuarantined;
  record.reason = record.lost +
                  "; it is not shown again, and as long as that process lives, it keeps its lock, "
                  "until you give those writes up: berth fence break --dangerous VOLUME";
  RETURN_IF_ERROR(WriteRecord(record));
  LOG_ERROR("volume {} is quarantined: {}", Quote(record.volume.image), record.reason);
  return Error(StatusCode::kDataLoss, "volume {} is quarantined: {}", Quote(record.volume.image),
               record.reason);
}

base::Status Exports::KillExport(Export record) {
  record.state = Export::State::kKilling;
  // The record makes the next process go on with the kill. Without it, as on a full disk, the kill
  // goes on all the same, because the daemon must write nothing more. After a crash its caller then
  // has to ask again.
  if (const base::Status written = WriteRecord(record); !written.ok()) {
    LOG_WARNING("volume {}: its daemon is killed, although that cannot be recorded: {}",
                Quote(record.volume.image), base::ToString(written));
    base::MutexLock lock(mutex_);
    exports_[IdOf(record.volume.store, record.volume.image)] = record;
  }
  return RemoveExport(record);
}

base::Status Exports::Kill(const std::string& store, const std::string& image) {
  const std::string id = IdOf(store, image);
  auto hold = keys_.LockExclusive(id);
  const auto deadline = steady_clock::now() + kEndTime;
  while (!hold.ok() && steady_clock::now() < deadline) {
    // Another call holds the key and waits for the daemon. That call ends when the daemon is
    // killed.
    const std::optional<Export> held = FindExport(id);
    if (held.has_value()) {
      const base::Status killed = platform::KillDaemon(held->daemon, seconds(2));
      if (!killed.ok()) LOG_WARNING("volume {}: {}", Quote(image), base::ToString(killed));
    }
    std::this_thread::sleep_for(kConnectPause);
    hold = keys_.LockExclusive(id);
  }
  RETURN_IF_ERROR(hold);
  const std::optional<Export> record = FindExport(id);
  return record.has_value() ? KillExport(*record) : base::OkStatus();
}

void Exports::RememberSettings(const std::string& id, const base::Json& settings) {
  base::MutexLock lock(mutex_);
  if (const auto found = exports_.find(id); found != exports_.end()) {
    found->second.volume.settings = settings;
  }
}

}  // namespace berth::block::proxy
