// The volumes that `berth io-proxy` shows, each by a qemu-storage-daemon of its own, as a FUSE
// file:
//
//   FOLDER/records/ID.json       what is shown; written before each step
//   FOLDER/exports/STORE/N/IMAGE the file that shows it, N times begun anew
//   FOLDER/daemons/ID.qmp, .log  of its daemon
//
//              daemon started, export made
//   starting ─────────────────────────────▶ serving ──▶ closing ─▶ (none)
//      │ crash: its daemon is killed,          │ daemon died
//      └─ begun anew                           ▼
//                                          quarantined: begun anew if no write can have been lost,
//                                          else until it is closed
//
// A daemon outlives this process, whose successor adopts it. No write can have been lost where the
// volume was shown for reading, or where no loop device showed the file. In all other cases it is
// for whoever uses it to end: to unmount, and mount anew, which replays the journal.
//
// The image's lock is held by the daemon, and so ends with it: a node whose daemon died writes
// nothing more, and another may have the volume.
//
// Thread-safe. Two calls for one volume exclude each other: ABORTED.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "block/key_locks.h"
#include "block/proxy/export_file.h"
#include "block/proxy/export_record.h"

namespace berth::block::proxy {

class Exports {
 public:
  struct Options {
    std::string folder;  // absolute, short: sockets are in it
    std::string program = "qemu-storage-daemon";
    // How long an NBD server may be away before I/O fails.
    std::chrono::seconds reconnect{30};
    // Until a daemon that was started shows its volume; one that does not is begun anew, once.
    std::chrono::milliseconds start_within{std::chrono::seconds(10)};
  };
  // Adopts what a predecessor left. FAILED_PRECONDITION: another process has the folder.
  static base::StatusOr<std::unique_ptr<Exports>> Open(Options options);
  ~Exports();  // the daemons go on

  // FAILED_PRECONDITION: it is shown otherwise, is quarantined, or another holds its lock.
  base::StatusOr<Shown> Show(const Volume& volume);
  base::StatusOr<Shown> Resize(const std::string& store, const std::string& image, int64_t size);
  // OK if it is not shown. FAILED_PRECONDITION: a loop device shows the file.
  base::Status Close(const std::string& store, const std::string& image);
  base::Status Kill(const std::string& store, const std::string& image);
  std::vector<Export> List() const;

  // Below which the files that show volumes of `store` are.
  static std::string FolderOf(const std::string& folder, const std::string& store);

 private:
  explicit Exports(Options options) : options_(std::move(options)) {}
  static std::string IdOf(const std::string& store, const std::string& image);
  static std::string MarkOf(const std::string& id);
  std::string FileOf(const Export& record) const;
  std::string RecordOf(const std::string& id) const;
  std::string SocketOf(const std::string& id) const;

  base::Status Recover();
  base::Status WriteRecord(const Export& record);
  base::Status ForgetExport(const Export& record);
  std::optional<Export> FindExport(const std::string& id) const;
  base::StatusOr<Shown> StartExport(Export record);
  base::Status EndDaemon(const Export& record, bool at_once);
  // Ends whatever serves it, and takes its FUSE files away.
  base::Status StopExport(const Export& record, bool at_once);
  base::StatusOr<Shown> InspectExport(const Export& record) const;
  base::StatusOr<bool> IsUsed(const Export& record) const;
  void WatchDaemons(const std::stop_token& stop);
  // What an agent had begun to map when it died, and never came back for, keeps its lock for
  // nobody.
  void CloseUnused();
  void WakeWatcher() const;
  // Quarantines the volume `id`, whose daemon `died`, or shows it again where that is safe.
  void HandleDeath(const std::string& id, const DaemonId& died, const std::string& how);

  const Options options_;
  std::string boot_id_;
  base::UniqueFd lock_;
  base::UniqueFd wake_;
  KeyLocks keys_;
  mutable base::Mutex mutex_;
  std::map<std::string, Export> exports_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, DaemonId> unused_;  // of the watching thread: at its last look
  std::jthread watching_;
};

}  // namespace berth::block::proxy
