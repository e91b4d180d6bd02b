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

#include "base/json.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "block/proxy/storage_daemon.h"

namespace berth::block::proxy {

// What is to be shown: a file, or an export of an NBD server.
struct Volume {
  std::string store;  // tells one back end's images from another's
  std::string image;
  std::string path;     // of the file; empty: it is an NBD server's
  uint64_t device = 0;  // which file
  uint64_t inode = 0;
  std::string server;  // "HOST:PORT" or "unix:/PATH"
  std::string export_name;
  bool read_only = false;
  bool shared = false;  // several nodes write
};

struct Export {
  enum class State { kStarting, kServing, kQuarantined, kClosing };
  Volume volume;
  State state = State::kStarting;
  std::string reason;  // of a quarantine
  std::string boot_id;
  DaemonId daemon;
  uint64_t shown_on = 0;  // device of the file system that the daemon's file is on, while it serves
  // Counts how often it was begun anew beside a file whose daemon died: a loop device may still
  // show that one.
  int generation = 0;
};

struct Shown {
  std::string path;
  uint64_t device = 0;  // of the file system that the path is to be on
  int64_t size_bytes = 0;
};

std::string Encode(const Export& record);
// DATA_LOSS.
base::StatusOr<Export> DecodeExport(std::string_view text);

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
  base::Status Write(const Export& record);
  base::Status Forget(const Export& record);
  std::optional<Export> Find(const std::string& id) const;
  base::StatusOr<Shown> Begin(Export record);
  base::Status EndDaemon(const Export& record, bool at_once);
  base::Status Configure(const Export& record);
  base::StatusOr<base::UniqueFd> Hold(const Volume& volume) const;
  // Ends whatever serves it, and takes its FUSE files away.
  base::Status End(const Export& record, bool at_once);
  base::StatusOr<Shown> Look(const Export& record) const;
  base::StatusOr<bool> IsUsed(const Export& record) const;
  void Watch(const std::stop_token& stop);
  // What an agent had begun to map when it died, and never came back for, keeps its lock for
  // nobody.
  void CloseUnused();
  void Wake() const;
  // Of the volume `id`, whose daemon `died`.
  void HandleDeath(const std::string& id, const DaemonId& died, const std::string& how);

  const Options options_;
  std::string boot_id_;
  base::UniqueFd lock_;
  base::UniqueFd wake_;
  base::KeyLocks keys_;
  mutable base::Mutex mutex_;
  std::map<std::string, Export> exports_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, DaemonId> unused_;  // of the watching thread: at its last look
  std::jthread watching_;
};

}  // namespace berth::block::proxy
