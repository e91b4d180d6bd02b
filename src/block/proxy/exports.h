// The volumes that `berth io-proxy` shows, each by a qemu-storage-daemon of its own, as a FUSE
// file:
//
//   FOLDER/records/ID.json       what is shown; written before each step
//   FOLDER/exports/STORE/N/IMAGE the file that shows it, after N restarts
//   FOLDER/daemons/ID.qmp, .log  of its daemon
//
//              daemon started, export made
//   starting ─────────────────────────────▶ serving ──▶ closing ─▶ (none)
//      │ crash: its daemon is killed,          │ daemon died
//      └─ begun anew                           ▼
//                                          quarantined: begun anew if no write can have been lost,
//                                          else until it is closed
//
// A daemon outlives this process, and the next process adopts it. No write can have been lost if
// the volume was shown for reading only, or if no loop device showed the file. In all other cases
// the users of the volume must unmount it and mount it again, because that replays the journal.
//
// The daemon holds the image's lock, so the lock ends with the daemon: a node whose daemon died
// writes nothing more, and another node may use the volume.
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

#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
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
    // How long a new daemon may take to show its volume. One that takes longer is started again,
    // once.
    std::chrono::milliseconds start_within{std::chrono::seconds(10)};
  };
  // Adopts the daemons that an earlier process left. FAILED_PRECONDITION: another process uses the
  // folder.
  static base::StatusOr<std::unique_ptr<Exports>> Open(Options options);
  ~Exports();  // the daemons go on

  // FAILED_PRECONDITION: the volume is shown with other settings, is quarantined, or another holder
  // has its lock.
  base::StatusOr<Shown> ShowVolume(const Volume& volume);
  base::StatusOr<Shown> Resize(const std::string& store, const std::string& image, int64_t size);
  // OK if it is not shown. FAILED_PRECONDITION: a loop device shows the file.
  base::Status Close(const std::string& store, const std::string& image);
  base::Status Kill(const std::string& store, const std::string& image);
  std::vector<Export> List() const;

  // The folder that holds the files that show volumes of `store`.
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
  // Ends the daemon of the export and unmounts its FUSE files.
  base::Status StopExport(const Export& record, bool at_once);
  base::StatusOr<Shown> InspectExport(const Export& record) const;
  base::StatusOr<bool> IsUsed(const Export& record) const;
  void WatchDaemons(const std::stop_token& stop);
  // Closes exports that no loop device uses for a while, because an agent that died while it mapped
  // one leaves a lock that nobody needs.
  void CloseUnused();
  void WakeWatcher() const;
  // Handles the death of `died`, the daemon of volume `id`: shows the volume again if that is safe,
  // and else quarantines it.
  void HandleDeath(const std::string& id, const DaemonId& died, const std::string& how);

  const Options options_;
  std::string boot_id_;
  base::UniqueFd lock_;
  base::UniqueFd wake_;
  base::KeyLocks keys_;
  mutable base::Mutex mutex_;
  std::map<std::string, Export> exports_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, DaemonId> unused_;  // at its last round; used by the watching thread only
  std::jthread watching_;
};

}  // namespace berth::block::proxy
