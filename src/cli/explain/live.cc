#include "cli/explain/live.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "base/ipc/block_call.h"
#include "base/ipc/block_trailer.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/command_line.h"
#include "platform/processes/process_walk.h"
#include "rpc/registration_client.h"
#include "volume/flex/kubelet_process.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::FlightLog;
using base::FlightRecord;
using base::StatusCode;

void ReadLogs(State& state, const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  if (error) {
    state.flights = base::Error(StatusCode::kUnavailable, "read the flight records in '{}': {}",
                                folder, error.message());
    return;
  }
  for (const auto& entry : files) {
    if (entry.path().extension() != ".flight") continue;
    auto log = base::ReadFlightLog(entry.path(), &platform::ReadForeignStartTicks);
    if (log.ok()) {
      state.logs.push_back(*std::move(log));
    } else {
      state.flights = log.status();
    }
  }
}

// Returns the keys of the flight records for this state's volume.
std::set<std::string> CollectKeys(const State& state) {
  std::set<std::string> keys = {ProvisionKey(state), DeleteKey(state),   ResizeKey(state),
                                ModifyKey(state),    SnapshotKey(state), NodeKey(state)};
  for (const std::string& key : DriverKeys(state)) keys.insert(key);
  for (const auto& attachment : state.attachments) keys.insert(AttachKey(attachment.name()));
  if (state.host_mount) keys.insert("host-mounts " + state.host_mount->key());
  return keys;
}

// Adds the child process that a record names, unless another process has its pid now; or the thread
// that does the recorded work, if the work still runs.
void AddProcess(State& state, const FlightLog& log, const FlightRecord& record) {
  if (record.kind == FlightKind::kProcess) {
    const auto process = platform::ReadProcess(record.pid);
    if (!process.ok()) return;
    // The age of a process that nobody can read is not known, but its parent is.
    if (process->unreadable) {
      if (record.running && process->parent == log.pid) {
        state.processes.emplace(record.pid, *process);
      }
      return;
    }
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(state.now - record.start);
    if (process->age + std::chrono::seconds(2) < age ||
        age + std::chrono::seconds(2) < process->age) {
      return;
    }
    state.processes.emplace(record.pid, *process);
  } else if (record.running) {
    const auto thread = platform::ReadThread(record.pid);
    if (thread.ok()) state.processes.emplace(record.pid, *thread);
  }
}

void AddServer(State& state, const std::string& socket) {
  if (socket.empty() || socket.front() != '/' || state.servers.contains(socket)) return;
  Server server;
  const auto owner = platform::FindSocketOwner(socket);
  server.listening = owner.status();
  if (owner.ok() && *owner > 0) server.processes = platform::ReadProcessTree(*owner);
  state.servers.emplace(socket, std::move(server));
}

// Whether the name can be that of one folder.
bool IsFolderName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

// The sockets at which the kubelet calls the driver: the one that the driver's registrar names, or
// else those in the driver's folder of plugins.
std::vector<std::string> FindDriverSockets(const std::string& kubelet, const std::string& driver) {
  constexpr rpc::Timeout kAnswers{std::chrono::seconds(1)};
  if (!IsFolderName(driver)) return {};
  const auto info =
      rpc::GetPluginInfo(fmt::format("{}/plugins_registry/{}-reg.sock", kubelet, driver), kAnswers);
  if (info.ok() && info->name == driver && info->endpoint.starts_with('/')) {
    return {info->endpoint};
  }
  std::vector<std::string> out;
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("{}/plugins/{}", kubelet, driver),
                                                  error);
  if (error) return out;
  for (const auto& entry : files) {
    if (entry.path().extension() == ".sock") out.push_back(entry.path());
  }
  return out;
}

// The Flexvolume drivers, as vendor/driver, that the pod's volumes and the PersistentVolume name.
std::set<std::string> CollectFlexDrivers(const State& state) {
  std::set<std::string> names;
  if (state.volume) names.insert(state.volume->String({"spec", "flexVolume", "driver"}));
  if (state.pod) {
    for (const base::Json& volume : base::json::Array(state.pod->json(), {"spec", "volumes"})) {
      names.insert(base::json::String(volume, {"flexVolume", "driver"}));
    }
  }
  return names;
}

// The socket of the block agent that has installed the driver; empty: it is not an agent's.
std::string FindAgentSocket(const std::string& drivers, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return "";
  const std::string vendor = name.substr(0, slash);
  const std::string driver = name.substr(slash + 1);
  if (!IsFolderName(vendor) || !IsFolderName(driver)) return "";
  const auto trailer =
      base::ipc::block::ReadTrailer(fmt::format("{}/{}~{}/{}", drivers, vendor, driver, driver));
  const std::string* socket =
      trailer.ok() ? trailer->FindText(base::ipc::block::kTrailerSocket) : nullptr;
  return socket == nullptr ? "" : *socket;
}

// The roles that a command line runs; empty: it runs none.
std::vector<std::string> FindRoles(const std::vector<std::string>& words) {
  constexpr std::string_view kPrograms[] = {"csi-provisioner", "csi-attacher", "csi-resizer",
                                            "csi-snapshotter", "snapshot-controller"};
  if (words.empty()) return {};
  // The program's name, or that of its first argument: `berth csi-provisioner`.
  for (const std::string& word : std::span(words).first(std::min<size_t>(words.size(), 2))) {
    const std::string_view program = base::FileNameOf(word);
    if (std::ranges::find(kPrograms, program) != std::end(kPrograms)) {
      return {std::string(program.substr(program.starts_with("csi-") ? 4 : 0))};
    }
  }
  if (words.size() < 2 || words[1] != "controller") return {};
  std::vector<std::string> roles;
  for (const std::string& value : platform::FindFlagValues(words, "roles")) {
    for (std::string_view left = value; !left.empty();) {
      roles.emplace_back(left.substr(0, left.find(',')));
      left.remove_prefix(std::min(roles.back().size() + 1, left.size()));
    }
  }
  return roles;
}

// The host's path of a socket that a process in a container names, as far as its mount table tells:
// it knows the folder within the file system from which the container's folder is mounted.
std::string FindHostPath(const std::string& process, const std::string& socket) {
  const auto table = platform::ReadMountTable(process + "/mountinfo");
  if (!table.ok()) return socket;
  const platform::MountEntry* holder = nullptr;
  for (const platform::MountEntry& mount : *table) {
    if (mount.mount_point != "/" && socket.starts_with(mount.mount_point + "/") &&
        (holder == nullptr || mount.mount_point.size() >= holder->mount_point.size())) {
      holder = &mount;
    }
  }
  if (holder == nullptr || holder->root == "/") return socket;
  return holder->root + socket.substr(holder->mount_point.size());
}

// Whether a signal has stopped the process, and it belongs to root or to this process's user.
bool IsStoppedAndOurs(const std::string& process) {
  constexpr size_t kLargestStatus = 64 * 1024;
  const auto status = platform::ReadFile(process + "/status", kLargestStatus);
  if (!status.ok()) return false;
  const auto has = [&](const std::string& line) { return status->find(line) != status->npos; };
  return (has("\nState:\tT") || has("\nState:\tt")) &&
         (has("\nUid:\t0\t") || has(fmt::format("\nUid:\t{}\t", getuid())));
}

}  // namespace

void AddStoppedRoles(State& state) {
  constexpr std::string_view kScheme = "unix://";
  for (const int pid : platform::ListNumbers("/proc")) {
    const std::string folder = fmt::format("/proc/{}", pid);
    if (!IsStoppedAndOurs(folder)) continue;
    const std::vector<std::string> words = platform::ReadCommandLine(folder);
    StoppedRoles stopped{.process = {}, .roles = FindRoles(words), .sockets = {}};
    stopped.of_node = std::ranges::any_of(words, [](const std::string& word) {
      return word.find("-node-deployment") != std::string::npos;
    });
    if (stopped.roles.empty()) continue;
    for (std::string& socket : platform::FindFlagValues(words, "csi-address")) {
      if (socket.starts_with(kScheme)) socket.erase(0, kScheme.size());
      stopped.sockets.push_back(FindHostPath(folder, socket));
    }
    auto process = platform::ReadProcess(pid);
    if (!process.ok() || !process->stopped()) continue;
    stopped.process = *std::move(process);
    state.stopped_roles.push_back(std::move(stopped));
  }
}

void AddKubeletSockets(State& state) {
  constexpr std::string_view kDefaultDrivers =
      "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
  if (state.node_name.empty()) return;
  for (const volume::RunningKubelet& kubelet : volume::ListKubelets()) {
    if (kubelet.node != state.node_name) continue;
    for (std::string& socket : FindDriverSockets(kubelet.folder, state.driver)) {
      AddServer(state, socket);
      state.driver_sockets.push_back(std::move(socket));
    }
    for (const std::string& name : CollectFlexDrivers(state)) {
      std::string socket = FindAgentSocket(
          kubelet.drivers.empty() ? std::string(kDefaultDrivers) : kubelet.drivers, name);
      if (socket.empty()) continue;
      AddServer(state, socket);
      state.agent_sockets.push_back(std::move(socket));
    }
  }
}

void AddLiveState(State& state, const std::string& flight_folder) {
  if (flight_folder.empty()) {
    state.flights =
        base::Error(StatusCode::kUnavailable,
                    "the roles' flight records: run this on the machine of the roles, with --data");
    return;
  }
  ReadLogs(state, flight_folder);
  const std::set<std::string> keys = CollectKeys(state);
  const bool whole_node = state.object.kind() == "Node";
  for (const FlightLog& log : state.logs) {
    for (const FlightRecord& record : log.records) {
      const bool ours = whole_node || keys.contains(record.key) ||
                        (state.pod && record.key.starts_with("volumes " + state.pod->uid()));
      if (ours) AddProcess(state, log, record);
      if (record.kind == FlightKind::kCall && (ours || record.key == "driver " + record.target)) {
        AddServer(state, record.target);
      }
    }
  }
}

}  // namespace berth::cli::explain
