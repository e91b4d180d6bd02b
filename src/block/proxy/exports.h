// The volumes that `berth io-proxy` shows, each by a daemon of its own (export_daemon.h), as a FUSE
// file:
//
//   FOLDER/records/ID.json       what is shown; written before each step
//   FOLDER/exports/STORE/N/IMAGE the file that shows it, after N restarts
//   FOLDER/daemons/ID.qmp, .log  the socket and the output of its daemon
//
//              daemon started, export made            flushed
//   starting ─────────────────────────────▶ serving ──▶ closing ─▶ (none)
//      │ crash: its daemon is killed,          │ daemon    │ daemon     ▲
//      └─ begun anew                           │ died      │ cannot     │
//                                              ▼           │ flush      │ daemon has ended
//                                              quarantined◀┘            │
//   (any state) ──────────────────▶ killing ────────────────────────────┘
//
// After the death of its daemon a quarantined export is begun anew if no write can have been lost,
// else it stays so until it is closed. If its daemon could not flush, or did not answer whether it
// has flushed, it stays so until it is killed or its daemon says that it has flushed, even if the
// daemon has ended meanwhile: the record says that data may be lost (Export::lost). Such a daemon
// is left running, because it may still write what it holds once its storage answers.
//
// A process that finds "closing" goes on with the flush; one that finds "killing" kills. It does so
// beside the other volumes, and does not wait long for it, because a daemon that hangs must delay
// none of them.
//
// A daemon outlives this process, and the next process adopts it. No write can have been lost if
// the volume was shown for reading only, or if no loop device showed the file. In all other cases
// the users of the volume must unmount it and mount it again, because that replays the journal.
//
// The daemon holds the image's lock, so the lock ends with the daemon: a node whose daemon died
// writes nothing more, and another node may use the volume.
//
// The settings of a program of Berth are in memory only, because they may have secrets. An adopted
// export has none until the agent maps the volume again; if its daemon dies before that, and the
// volume could be shown again, the export is dropped, and the agent's next call begins it anew.
//
// Thread-safe. Two calls for one volume exclude each other: ABORTED.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "base/workers/worker_pool.h"
#include "block/proxy/export_daemon.h"
#include "block/proxy/export_file.h"
#include "block/proxy/export_record.h"

namespace berth::block::proxy {

class Exports {
 public:
  struct Options {
    std::string folder;  // absolute, short: sockets are in it
    // What shows NBD exports, and images if `image_program` is empty.
    std::string program = "qemu-storage-daemon";
    // The program of Berth that shows images.
    std::string image_program = "berth-export";
    // How long an NBD server may be away before I/O fails.
    std::chrono::seconds reconnect{30};
    // How long a new daemon may take to show its volume. One that takes longer is started again,
    // once.
    std::chrono::milliseconds start_within{std::chrono::seconds(10)};
    // How long a program of Berth may take: it waits for its storage, and for the storage's lock.
    std::chrono::milliseconds program_within{std::chrono::seconds(40)};
    // How long a daemon may take to flush, and then to end.
    std::chrono::milliseconds end_within{std::chrono::seconds(10)};
    // How long a daemon that runs may take to show a new size.
    std::chrono::milliseconds grow_within{std::chrono::seconds(10)};
  };
  // Adopts the daemons that an earlier process left, and ends what that did not end, or goes on
  // with it if it takes more than two seconds. FAILED_PRECONDITION: another process uses the
  // folder.
  static base::StatusOr<std::unique_ptr<Exports>> Open(Options options);
  ~Exports();  // the daemons keep running

  // Starts a daemon that shows the volume, or gives the file that shows it already.
  // FAILED_PRECONDITION: the volume is shown with other settings, is quarantined, or another holder
  // has its lock. DATA_LOSS: another file has the image's path.
  base::StatusOr<Shown> ShowVolume(const Volume& volume);
  // Grows the volume that is shown to at least `size` bytes. NOT_FOUND: it is not shown.
  base::StatusOr<Shown> Resize(const std::string& store, const std::string& image, int64_t size);
  // Has the daemon flush and end, and removes the export. OK if the volume is not shown. If a Kill
  // has not ended, goes on with that. A daemon that does not answer in time is killed if nothing
  // can be lost by that. FAILED_PRECONDITION: a loop device shows the file; or the daemon refuses
  // for another reason than a failed flush, and goes on. DATA_LOSS: the daemon could not flush, or
  // does not answer, so writes that it answered may be lost; it goes on and keeps its lock, and the
  // export is quarantined until Kill, or until a later Close gets the answer that all is flushed.
  base::Status Close(const std::string& store, const std::string& image);
  // Kills the daemon and removes the export, even if the file is in use, another call works on it,
  // or its record cannot be written. OK if the volume is not shown. DEADLINE_EXCEEDED: the daemon
  // does not end. ABORTED: the other call does not end.
  base::Status Kill(const std::string& store, const std::string& image);
  // The exports in all states.
  std::vector<Export> List() const;

  // The folder that holds the files that show volumes of `store`.
  static std::string FolderOf(const std::string& folder, const std::string& store);

 private:
  // The repairs that the repairing thread makes. It makes those of the first kind first.
  enum class RepairKind {
    kShowAgain,            // shows a volume whose daemon died
    kEndSpareConnections,  // ends the connections that a growth may have left in the daemon
  };
  struct Repair {
    std::string id;
    platform::DaemonId daemon;  // the one that died, or that has the connections
  };

  explicit Exports(Options options) : options_(std::move(options)) {}
  static std::string IdOf(const std::string& store, const std::string& image);
  std::string MarkOf(const std::string& id) const;
  std::string FileOf(const Export& record) const;
  std::string RecordOf(const std::string& id) const;
  std::string SocketOf(const std::string& id) const;
  ExportCall CallOf(const Export& record) const;

  base::Status Recover();
  base::Status WriteRecord(const Export& record);
  // Removes the record and the files of an export that StopExport stopped.
  base::Status ForgetExport(const Export& record);
  std::optional<Export> FindExport(const std::string& id) const;
  // CANCELLED: `stop` ended the wait for the daemon.
  base::StatusOr<Shown> StartExport(Export record, const std::stop_token& stop = {});
  // Starts the daemon of the export, and waits until its file is there.
  base::StatusOr<Shown> StartDaemonFor(Export& record, const base::UniqueFd& held,
                                       const std::stop_token& stop);
  // Has the daemon flush, and waits for its end. OK: it has flushed; a program of Berth may still
  // live. UNAVAILABLE: it ended before it answered. DEADLINE_EXCEEDED: it is not known whether it
  // has flushed, because it did not answer, or is qemu-storage-daemon and did not end after its
  // answer. DATA_LOSS and FAILED_PRECONDITION as for Close.
  base::Status QuitExport(const Export& record) const;
  // Whether a daemon that does not quit has nothing that is not in the storage.
  bool HasNothingToLose(const Export& record) const;
  // Kills the daemon of the export and unmounts its FUSE files. DEADLINE_EXCEEDED: the daemon does
  // not end, and its users get errors.
  base::Status StopExport(const Export& record);
  // StopExport and ForgetExport.
  base::Status RemoveExport(const Export& record);
  // Does what Close says, for an export whose file no loop device shows.
  base::Status CloseExport(Export record);
  // Does what Kill says.
  base::Status KillExport(Export record);
  // Goes on with what an earlier process or call did not end: a start, a Close or a Kill.
  base::Status EndInterrupted(const Export& record);
  // Does that for what an earlier process did not end, unless a call has done it since. Of an
  // export that serves, it ends the connections that a growth has left.
  void EndLeftBehind(const std::string& id);
  // Has a thread of its own do that.
  void EndBeside(const std::string& id);
  void AwaitLeftovers(std::chrono::steady_clock::time_point deadline);
  base::Status QuarantineLost(Export record);
  base::StatusOr<Shown> InspectExport(const Export& record) const;
  base::StatusOr<bool> IsUsed(const Export& record) const;
  void WatchDaemons(const std::stop_token& stop);
  // Closes the exports that no loop device used at the last round, nor uses now. An agent that died
  // while it mapped a volume leaves such an export, whose lock keeps other nodes from the volume.
  // Ends before the next one if `stop` asks for it.
  void CloseUnused(const std::stop_token& stop);
  void WakeWatcher() const;
  // Remembers the settings that the agent sent again; an adopted export has none.
  void RememberSettings(const std::string& id, const base::Json& settings);
  // Quarantines the volume `id`, whose daemon `died`, and has it shown again if that is safe.
  void MarkDeath(const std::string& id, const platform::DaemonId& died, const std::string& how);
  // The first part of that. True: it is quarantined, and no write can have been lost.
  bool QuarantineDead(const std::string& id, const platform::DaemonId& died,
                      const std::string& how);
  void QueueRepair(RepairKind kind, Repair repair) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does the work of repairs_, one volume after the other.
  void RepairExports(const std::stop_token& stop);
  // False: the repair is to be tried again later.
  bool TryRepair(RepairKind kind, const Repair& repair, const std::stop_token& stop);
  // Shows the volume `id` again, whose daemon `died`, unless it was closed since. False: another
  // call works on it.
  bool ShowAgain(const std::string& id, const platform::DaemonId& died,
                 const std::stop_token& stop);
  // Ends the connections to an NBD server that a growth has left in the daemon. If the daemon does
  // not answer, RepairExports tries again. The caller has the volume's key.
  void EndSpareConnections(const Export& record);
  // Tries once. False: the daemon did not answer, or another call works on the volume.
  bool EndSpareConnectionsOf(const std::string& id, const platform::DaemonId& daemon);

  const Options options_;
  std::string boot_id_;
  base::UniqueFd lock_;
  base::UniqueFd wake_;
  base::KeyLocks keys_;
  mutable base::Mutex mutex_;
  std::map<std::string, Export> exports_ ABSL_GUARDED_BY(mutex_);
  // The exports that CloseUnused found unused at its last round, by id. Only the watching thread
  // uses it.
  std::map<std::string, platform::DaemonId> unused_;
  // A thread of its own does these, because each start may take program_within, and deaths of other
  // daemons are told meanwhile.
  std::multimap<RepairKind, Repair> repairs_ ABSL_GUARDED_BY(mutex_);
  base::CondVar repairs_changed_;
  int leftovers_running_ ABSL_GUARDED_BY(mutex_) = 0;
  base::CondVar leftovers_changed_;
  base::WorkerPool leftovers_{{.name = "leftovers", .max_threads = 16}};
  std::jthread watching_;
  std::jthread repairing_;
};

}  // namespace berth::block::proxy
