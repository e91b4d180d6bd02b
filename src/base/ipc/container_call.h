// The calls for the containers in a guest. The guest serves them (guest/containers), berth-oci
// makes them, and the CRUST handler hands them on: only it has the line to the guest.
//
// - container.create (container, config, port, terminal) makes a container by its config.json,
// whose
//   paths are those of the guest (crust/containers/guest_config.h). Its stream
//   (base/ipc/guest_stream.h) is at the port, and is named StreamName(container, "")
// - container.start (container)
// - container.exec (container, process, spec, port, terminal) runs one more process. `process` is
// the
//   caller's name for it, `spec` the process object of OCI. Its stream is named
//   StreamName(container, process)
// - container.kill (container, process, signal, all): `all` is 1 for all processes of the container
// - container.delete (container, force): `force` is 1 if it may run; it is killed then
// - container.state (container) replies status ("created", "running", "paused", "stopped") and pid
// - container.processes, container.stats, container.update, container.pause and container.resume
//   (container, text) reply text. The texts are those of `runc ps --format json`, `events --stats`
//   and `update --resources -`
//
// An error has the code NOT_FOUND if there is no such container or process, ALREADY_EXISTS if there
// is one, INVALID_ARGUMENT if a field is missing or not allowed, and FAILED_PRECONDITION if runc
// refuses; the text is runc's own then.
//
// berth-oci's calls to the handler are these, with `sandbox` in addition and without `port`, which
// the handler adds. Its replies to crust.create (base/ipc/crust_call.h) and container.exec have one
// descriptor: the host's end of the stream.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace berth::base::ipc::container {

inline constexpr std::string_view kCreate = "container.create";
inline constexpr std::string_view kStart = "container.start";
inline constexpr std::string_view kExec = "container.exec";
inline constexpr std::string_view kKill = "container.kill";
inline constexpr std::string_view kDelete = "container.delete";
inline constexpr std::string_view kState = "container.state";
inline constexpr std::string_view kProcesses = "container.processes";
inline constexpr std::string_view kStats = "container.stats";
inline constexpr std::string_view kUpdate = "container.update";
inline constexpr std::string_view kPause = "container.pause";
inline constexpr std::string_view kResume = "container.resume";

inline constexpr std::string_view kContainer = "container";
inline constexpr std::string_view kConfig = "config";
inline constexpr std::string_view kPort = "port";
inline constexpr std::string_view kTerminal = "terminal";
inline constexpr std::string_view kProcess = "process";
inline constexpr std::string_view kSpec = "spec";
inline constexpr std::string_view kSignal = "signal";
inline constexpr std::string_view kAll = "all";
inline constexpr std::string_view kForce = "force";
inline constexpr std::string_view kStatus = "status";
inline constexpr std::string_view kPid = "pid";
inline constexpr std::string_view kText = "text";

// The name in the hello of a process's stream.
inline std::string StreamName(std::string_view container, std::string_view process) {
  return std::string(container) + (process.empty() ? "" : "/") + std::string(process);
}

// How long the guest may take for a call that runs runc. In software emulation a container takes
// seconds.
inline constexpr std::chrono::seconds kRuncTime{60};

}  // namespace berth::base::ipc::container
