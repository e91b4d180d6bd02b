// Starts, configures and ends the daemon that shows a volume: qemu-storage-daemon through QMP
// (qemu_daemon.h), or a program of Berth through its control socket (volume_program.h).
// Functions without state: thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "block/proxy/export_record.h"
#include "platform/processes/daemon.h"

namespace berth::block::proxy {

// The daemon, the volume that it is to show, and the file at which it shows the volume.
struct ExportCall {
  std::string storage_daemon;  // the qemu-storage-daemon
  std::string mark;            // a variable of its environment: "NAME=value"
  std::string socket;          // QMP's, or the control socket
  std::string log;             // the file of its output
  std::string file;            // the existing file over which the volume is mounted
  Volume volume;
  platform::DaemonId daemon;  // known after StartDaemonOf
  // How long an NBD server may be away before I/O fails.
  std::chrono::seconds reconnect{0};
  // Ends the wait for a daemon that does not listen yet.
  std::stop_token stop;
};

// Starts the daemon, which inherits the open file `held` as platform/processes/daemon.h describes.
base::StatusOr<platform::DaemonId> StartDaemonOf(const ExportCall& call, int held);

// Makes a daemon that was just started show the volume, and waits until it does. UNAVAILABLE: the
// daemon ended, or did not listen before the deadline. DEADLINE_EXCEEDED: it did not answer, and
// the outcome is unknown. CANCELLED: call.stop ended the wait. Other errors are the daemon's own.
base::Status AddExport(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

// Has the daemon show `size` bytes, which the volume has now. FAILED_PRECONDITION: the daemon
// refused, or its storage has less.
base::Status GrowExport(const ExportCall& call, int64_t size,
                        std::chrono::steady_clock::time_point deadline);

// Ends the connections to an NBD server that an earlier growth has left. OK also for a daemon that
// has no such connections.
base::Status EndUnusedConnections(const ExportCall& call,
                                  std::chrono::steady_clock::time_point deadline);

// Has the daemon flush and end. It ends after an OK. DATA_LOSS: it could not flush, and goes on.
// FAILED_PRECONDITION: it refuses for another reason, and goes on.
base::Status QuitDaemon(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

// Whether the daemon says that nothing was written since the last flush that succeeded. False also
// if it does not answer, or cannot know that, as qemu-storage-daemon.
bool HasFlushed(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

// Whether a daemon that has ended had flushed before, as it reported itself.
bool HasEndedFlushed(const ExportCall& call);

// The name of the daemon's program, for people.
std::string ProgramOf(const Volume& volume);

}  // namespace berth::block::proxy
