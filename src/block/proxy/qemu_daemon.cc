#include "block/proxy/qemu_daemon.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/processes/qmp_client.h"

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
// The nodes of connections to an NBD server: "server-1" and so on, one for each growth. The newest
// is below the node kNode.
constexpr std::string_view kServerNode = "server-";

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

// The options of the node that the export shows, on top of a connection.
Json OnTopOf(const std::string& connection, bool read_only) {
  return {{"node-name", kNode}, {"driver", "raw"}, {"file", connection}, {"read-only", read_only}};
}

// Connects to the volume's server, as a node of that name.
base::Status AddConnection(platform::QmpClient& qmp, const ExportCall& call,
                           const std::string& name, steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(const Json server, ServerAddress(call.volume.server));
  return qmp
      .Call("blockdev-add",
            {{"node-name", name},
             {"driver", "nbd"},
             {"server", server},
             {"export", call.volume.export_name},
             {"reconnect-delay", call.reconnect.count()},
             {"read-only", call.volume.read_only}},
            deadline)
      .status();
}

// The names of the daemon's connections to the volume's server.
base::StatusOr<std::vector<std::string>> ListConnections(platform::QmpClient& qmp,
                                                         steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(const Json nodes,
                   qmp.Call("query-named-block-nodes", {{"flat", true}}, deadline));
  std::vector<std::string> names;
  for (const Json& node : nodes) {
    std::string name = base::json::String(node, {"node-name"});
    if (name.starts_with(kServerNode)) names.push_back(std::move(name));
  }
  return names;
}

// An NBD server tells the size when a client connects, so the volume gets a new connection, with
// the size of now. QEMU flushes the earlier one and waits for its requests before it takes the new
// one. EndQemuConnections then ends the one that is not in use.
base::Status ConnectAnew(platform::QmpClient& qmp, const ExportCall& call,
                         steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(const std::vector<std::string> earlier, ListConnections(qmp, deadline));
  if (earlier.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "an earlier version of Berth mapped volume {}, so it does not grow before it is "
                 "mapped anew",
                 Quote(call.volume.image));
  }
  int last = 0;
  for (const std::string& name : earlier) {
    last = std::max(last, std::atoi(name.c_str() + kServerNode.size()));
  }
  const std::string connection = fmt::format("{}{}", kServerNode, last + 1);
  RETURN_IF_ERROR(AddConnection(qmp, call, connection, deadline));
  RETURN_IF_ERROR(base::FaultPoint<"block.proxy_export.connected">());
  return qmp
      .Call("blockdev-reopen",
            {{"options", Json::array({OnTopOf(connection, call.volume.read_only)})}}, deadline)
      .status();
}

bool RunsOrIsUnknown(const platform::DaemonId& daemon) {
  const auto process = platform::OpenDaemon(daemon);
  return !process.ok() || process->valid();
}

}  // namespace

base::StatusOr<platform::DaemonId> StartQemu(const ExportCall& call, int held) {
  return platform::StartDaemon(
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
  auto qmp = platform::QmpClient::Connect(call.socket, deadline);
  while (qmp.status().code() == StatusCode::kUnavailable && steady_clock::now() < deadline &&
         RunsOrIsUnknown(call.daemon) && !call.stop.stop_requested()) {
    std::this_thread::sleep_for(kListenPause);
    qmp = platform::QmpClient::Connect(call.socket, deadline);
  }
  if (!qmp.ok() && call.stop.stop_requested()) {
    return Error(StatusCode::kCancelled, "the I/O proxy ends before its daemon listens: {}",
                 base::Message(qmp.status()));
  }
  RETURN_IF_ERROR(qmp);
  Json node;
  if (volume.server.empty()) {
    // The daemon opens the very file that it inherited open and locked. QEMU's own locks are off,
    // because they would let two writers share an export's file.
    node = {{"node-name", kNode},
            {"read-only", volume.read_only},
            {"driver", "file"},
            {"filename", fmt::format("/proc/self/fd/{}", platform::kHeldFd)},
            {"locking", "off"},
            {"aio", "threads"},
            {"cache", {{"direct", true}}},
            {"discard", "unmap"}};
  } else {
    const std::string connection = fmt::format("{}1", kServerNode);
    RETURN_IF_ERROR(AddConnection(*qmp, call, connection, deadline));
    node = OnTopOf(connection, volume.read_only);
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
  ASSIGN_OR_RETURN(platform::QmpClient qmp, platform::QmpClient::Connect(call.socket, deadline));
  if (!call.volume.server.empty()) return ConnectAnew(qmp, call, deadline);
  return qmp.Call("block_resize", {{"node-name", kNode}, {"size", size}}, deadline).status();
}

base::Status EndQemuConnections(const ExportCall& call, steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(platform::QmpClient qmp, platform::QmpClient::Connect(call.socket, deadline));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListConnections(qmp, deadline));
  if (names.size() <= 1) return base::OkStatus();
  for (const std::string& name : names) {
    const base::Status ended = qmp.Call("blockdev-del", {{"node-name", name}}, deadline).status();
    // The one in use is refused (qapi/block-core.json, blockdev-del).
    if (!ended.ok() && ended.code() != StatusCode::kFailedPrecondition) return ended;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> left, ListConnections(qmp, deadline));
  if (left.size() == 1) return base::OkStatus();
  return Error(StatusCode::kUnavailable, "{} connections to the server are left", left.size());
}

base::Status QuitQemu(const ExportCall& call, steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(platform::QmpClient qmp, platform::QmpClient::Connect(call.socket, deadline));
  return qmp.Call("quit", Json::object(), deadline).status();
}

}  // namespace berth::block::proxy
