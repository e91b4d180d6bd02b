// Serves one volume as a FUSE file, with a socket by which `berth io-proxy` controls the process
// (base/ipc/export_call.h). A process serves one volume, so that the death of one process affects
// no other volume.
//
//   loop device ─▶ FUSE file (direct I/O) ─▶ threads of this process ─▶ BlockStore ─▶ storage
//
// If the process is killed, the kernel ends the FUSE connection, and all requests that wait and all
// later ones fail at once.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "blockexport/block_store.h"

namespace berth::blockexport {

struct ExportOptions {
  std::string socket;  // where the calls arrive; replaced if it exists. Root's, mode 0600
  std::string file;    // the existing file over which the volume is mounted
  // How long threads are kept that no request needed.
  std::chrono::milliseconds thread_period{std::chrono::seconds(10)};
};

// Mounts the volume over the file, listens on the socket, and serves until a call tells it to quit.
// Returns the exit code of the process: 0 after such a call, which it also reports on standard
// output. If it cannot begin to serve, it reports the failure with ReportFailure and returns 1. The
// calling process has no other threads that rely on SIGUSR1.
int RunExport(std::unique_ptr<BlockStore> store, const ExportOptions& options);

// Writes {"error": {"code": "NOT_FOUND", "message": "..."}} as one line to standard output, by
// which a process that cannot serve tells its parent why.
void ReportFailure(const base::Status& failure);

}  // namespace berth::blockexport
