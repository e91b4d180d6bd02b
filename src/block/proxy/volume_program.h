// The calls of export_daemon.h for a program of Berth that serves one volume (src/blockexport):
// `NAME serve`, its settings on its standard input, and the calls of base/ipc/export_call.h.
//
// A program that ends before it serves has written why as {"error": {"code", "message"}} to its
// output, and that is the error. UNAVAILABLE: it ended and left no such line.
#pragma once

#include "block/proxy/export_daemon.h"

namespace berth::block::proxy {

// INVALID_ARGUMENT: the settings are too long.
base::StatusOr<platform::DaemonId> StartVolumeProgram(const ExportCall& call, int held);

// Waits until the program serves.
base::Status AwaitVolumeProgram(const ExportCall& call,
                                std::chrono::steady_clock::time_point deadline);

// Has the program ask its storage for the size. FAILED_PRECONDITION: that is less than `size`.
base::Status GrowVolumeProgram(const ExportCall& call, int64_t size,
                               std::chrono::steady_clock::time_point deadline);

// False also if it does not answer, or is of an earlier version, which does not tell.
bool HasProgramFlushed(const ExportCall& call, std::chrono::steady_clock::time_point deadline);

// Whether the program wrote that line to its output.
bool HasProgramReportedFlush(const ExportCall& call);

base::Status QuitVolumeProgram(const ExportCall& call,
                               std::chrono::steady_clock::time_point deadline);

}  // namespace berth::block::proxy
