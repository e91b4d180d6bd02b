// Configures, through QMP, the volume that a storage daemon shows. Functions without state:
// thread-safe. FAILED_PRECONDITION: the daemon refused. DEADLINE_EXCEEDED: it did not answer, and
// the outcome is unknown.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "block/proxy/export_record.h"
#include "block/proxy/storage_daemon.h"

namespace berth::block::proxy {

// The daemon, the volume that it is to show, and the file at which it shows the volume.
struct ExportCall {
  std::string qmp_socket;
  DaemonId daemon;
  Volume volume;
  std::string file;  // the existing file over which the volume is mounted
  // How long an NBD server may be away before I/O fails.
  std::chrono::seconds reconnect{0};
};

// Makes a daemon that was just started show the volume. Waits until the daemon listens, has it open
// the image that it holds (storage_daemon.h) or the NBD server's export, and has it mount the FUSE
// file. INVALID_ARGUMENT: the server's address is not valid. UNAVAILABLE: the daemon ended, or did
// not listen before the deadline.
base::Status AddExport(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

// Tells the daemon that the volume has `size` bytes now.
base::Status GrowExport(const std::string& qmp_socket, int64_t size,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace berth::block::proxy
