#include "block/proxy/qemu_daemon.h"

#include <thread>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "block/proxy/qmp_client.h"

namespace berth::block::proxy {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kListenPause{5};
constexpr std::string_view kNode = "volume";
constexpr std::string_view kExportId = "export";
constexpr std::string_view kUnixServer = "unix:";

// QMP's form of "HOST:PORT" or "unix:/PATH".
base::StatusOr<Json> ServerAddress(const std::string& server) {
  if (server.starts_with(kUnixServer)) {
    return Json{{"type", "unix"}, {"path", server.substr(kUnixServer.size())}};
  }
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Error(StatusCode::kInvalidArgument, "{} is neither HOST:PORT nor unix:/PATH",
                 Quote(server));
  }
  std::string host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Json{{"type", "inet"}, {"host", host}, {"port", server.substr(colon + 1)}};
}

bool RunsOrIsUnknown(const DaemonId& daemon) {
  const auto process = OpenDaemon(daemon);
  return !process.ok() || process->valid();
}

}  // namespace

base::StatusOr<DaemonId> StartQemu(const ExportCall& call, int held) {
  return StartDaemon(
      {.program = call.storage_daemon,
       .arguments = {"--chardev",
                     fmt::format("socket,path={},server=on,wait=off,id=qmp", call.socket),
                     "--monitor", "chardev=qmp"},
       .mark = call.mark,
       .log = call.log,
       .held = held});
}

base::Status AddQemuExport(const ExportCall& call, steady_clock::time_point deadline) {
  const Volume& volume = call.volume;
  auto qmp = QmpClient::Connect(call.socket, deadline);
  while (qmp.status().code() == StatusCode::kUnavailable && steady_clock::now() < deadline &&
         RunsOrIsUnknown(call.daemon)) {
    std::this_thread::sleep_for(kListenPause);
    qmp = QmpClient::Connect(call.socket, deadline);
  }
  RETURN_IF_ERROR(qmp);
  Json node = {{"node-name", kNode}, {"read-only", volume.read_only}};
  if (volume.server.empty()) {
    // The daemon opens the very file that it inherited open and locked. QEMU's own locks are off,
    // because they would let two writers share an export's file.
    node["driver"] = "file";
    node["filename"] = fmt::format("/proc/self/fd/{}", kHeldFd);
    node["locking"] = "off";
    node["aio"] = "threads";
    node["cache"] = {{"direct", true}};
    node["discard"] = "unmap";
  } else {
    ASSIGN_OR_RETURN(const Json server, ServerAddress(volume.server));
    node["driver"] = "nbd";
    node["server"] = server;
    node["export"] = volume.export_name;
    node["reconnect-delay"] = call.reconnect.count();
  }
  RETURN_IF_ERROR(qmp->Call("blockdev-add", std::move(node), deadline));
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_export.added">());
  RETURN_IF_ERROR(qmp->Call("block-export-add",
                            {{"type", "fuse"},
                             {"id", kExportId},
                             {"node-name", kNode},
                             {"mountpoint", call.file},
                             {"writable", !volume.read_only},
                             {"growable", false},
                             {"allow-other", "off"}},
                            deadline));
  return base::FaultPoint<"block.proxy_export.shown">();
}

base::Status GrowQemuExport(const ExportCall& call, int64_t size,
                            steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(QmpClient qmp, QmpClient::Connect(call.socket, deadline));
  return qmp.Call("block_resize", {{"node-name", kNode}, {"size", size}}, deadline).status();
}

base::Status QuitQemu(const ExportCall& call, steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(QmpClient qmp, QmpClient::Connect(call.socket, deadline));
  return qmp.Call("quit", Json::object(), deadline).status();
}

}  // namespace berth::block::proxy
