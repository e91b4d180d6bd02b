// An export of a volume, and the format of its record, which outlives the process. exports.h draws
// the states and the folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "platform/processes/daemon.h"

namespace berth::block::proxy {

// The volume that the proxy shows: a file, an export of an NBD server, or a volume that a program
// of Berth reaches.
struct Volume {
  std::string store;  // distinguishes the images of different back ends
  std::string image;
  // Of the file. With `server`: of the server's own file of the export, which this node reaches;
  // it is not read, and the daemon holds its lock (kClient in image_lock.h). Else empty.
  std::string path;
  uint64_t device = 0;  // st_dev and st_ino of the file
  uint64_t inode = 0;
  std::string server;       // "HOST:PORT" or "unix:/PATH"
  std::string export_name;  // at the server
  bool read_only = false;
  bool shared = false;  // several nodes write
  // "berth-NAME": `berth-NAME serve` shows the volume; empty: qemu-storage-daemon does.
  std::string program;
  // What that program reads from its standard input, beside what describes the export
  // (base/ipc/export_call.h). It may have secrets, so the record on disk never has it, and it is
  // null for an export of an earlier process until the agent maps the volume again.
  base::Json settings;
};

struct Export {
  // kClosing: its daemon has to flush it before it ends. kKilling: a fence or a person wants the
  // daemon's end without a flush.
  enum class State { kStarting, kServing, kQuarantined, kClosing, kKilling };
  Volume volume;
  State state = State::kStarting;
  std::string reason;  // why it is quarantined
  // Why writes that were answered may be lost: its daemon could not flush it, or did not say that
  // it has. Only a kill forgets that, or a daemon that says later that all is flushed. Empty:
  // nothing is known to be lost.
  std::string lost;
  std::string boot_id;
  platform::DaemonId daemon;
  uint64_t shown_on = 0;  // st_dev of the daemon's FUSE file; 0: it does not serve yet
  // The number of times that the export was started again at a new path after its daemon died. The
  // old path stays, because a loop device may still show that file.
  int generation = 0;
};

// The name of the state in the record, and in the answer to kList (calls.h).
std::string_view StateName(Export::State state);

// Members that were added later may be missing in a record of an earlier version: "program" and
// "lost".
std::string Encode(const Export& record);
// DATA_LOSS for text that is not a whole record of this version.
base::StatusOr<Export> DecodeExport(std::string_view text);

}  // namespace berth::block::proxy
