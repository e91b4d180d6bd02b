#include "block/proxy/export_daemon.h"

#include "block/proxy/qemu_daemon.h"
#include "block/proxy/volume_program.h"

namespace berth::block::proxy {

using std::chrono::steady_clock;

base::StatusOr<platform::DaemonId> StartDaemonOf(const ExportCall& call, int held) {
  return call.volume.program.empty() ? StartQemu(call, held) : StartVolumeProgram(call, held);
}

base::Status AddExport(const ExportCall& call, steady_clock::time_point deadline) {
  return call.volume.program.empty() ? AddQemuExport(call, deadline)
                                     : AwaitVolumeProgram(call, deadline);
}

base::Status GrowExport(const ExportCall& call, int64_t size, steady_clock::time_point deadline) {
  return call.volume.program.empty() ? GrowQemuExport(call, size, deadline)
                                     : GrowVolumeProgram(call, size, deadline);
}

base::Status EndUnusedConnections(const ExportCall& call, steady_clock::time_point deadline) {
  return call.volume.server.empty() ? base::OkStatus() : EndQemuConnections(call, deadline);
}

base::Status QuitDaemon(const ExportCall& call, steady_clock::time_point deadline) {
  return call.volume.program.empty() ? QuitQemu(call, deadline) : QuitVolumeProgram(call, deadline);
}

bool HasFlushed(const ExportCall& call, steady_clock::time_point deadline) {
  return !call.volume.program.empty() && HasProgramFlushed(call, deadline);
}

bool HasEndedFlushed(const ExportCall& call) {
  return !call.volume.program.empty() && HasProgramReportedFlush(call);
}

std::string ProgramOf(const Volume& volume) {
  return volume.program.empty() ? "qemu-storage-daemon" : volume.program;
}

}  // namespace berth::block::proxy
