// The calls of export_daemon.h for a qemu-storage-daemon. FAILED_PRECONDITION: the daemon refused.
// DEADLINE_EXCEEDED: it did not answer, and the outcome is unknown. INVALID_ARGUMENT: the NBD
// server's address is not valid.
#pragma once

#include "block/proxy/export_daemon.h"

namespace berth::block::proxy {

base::StatusOr<platform::DaemonId> StartQemu(const ExportCall& call, int held);

// Waits until the daemon listens, has it open the image that it holds (platform/processes/daemon.h)
// or the NBD server's export, and has it mount the FUSE file.
base::Status AddQemuExport(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

base::Status GrowQemuExport(const ExportCall& call, int64_t size,
                            std::chrono::steady_clock::time_point deadline);

// Ends all connections to the volume's server but the one in use.
base::Status EndQemuConnections(const ExportCall& call,
                                std::chrono::steady_clock::time_point deadline);

base::Status QuitQemu(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

}  // namespace berth::block::proxy
