#include "cli/explain/live.h"

#include <filesystem>
#include <set>

#include "platform/processes/process_walk.h"

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

}  // namespace

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
