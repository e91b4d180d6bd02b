#include "volume/exec/container_exec.h"

#include <algorithm>
#include <cctype>

#include "base/log.h"
#include "platform/processes/exec_parts.h"
#include "platform/processes/marked_processes.h"
#include "volume/exec/run_streams.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::Command;
using platform::CommandResult;

constexpr std::chrono::seconds kKillGrace(2);
// The runtime's own deadline ends the runs of an agent that died.
constexpr std::chrono::seconds kRuntimeGrace(10);
constexpr int kWrapperFailed = 125;
constexpr int kNoProgram = 127;
constexpr char kBegan[] = "began";
constexpr size_t kMostWords = 1000;  // of a runtime, in a message

// $0 is the run's folder; then follow the environment, "--" and the program. The script makes the
// file "began", unless the agent made it first: then the run is over, and the script ends. When the
// script has opened the streams' files it becomes the program, so that no extra process must be
// found and ended. The script's own messages begin with the run's variable, which no program knows
// beforehand.
#define BERTH_BEGIN                                      \
  R"([ -e "$0/out" ] || { echo "$1" >&2; exit 125; }; )" \
  R"(set -C; true >"$0/began" || exit 125; set +C; )"    \
  R"(while [ "$1" != -- ]; do export "$1"; shift; done; shift; )"
constexpr char kScript[] = BERTH_BEGIN R"(exec "$@" <"$0/in" >"$0/out" 2>"$0/err")";
constexpr char kScriptWithoutInput[] = BERTH_BEGIN R"(exec "$@" </dev/null >"$0/out" 2>"$0/err")";
#undef BERTH_BEGIN

// A prepared call: argv, and the folder and the streams that belong to it.
struct Prepared {
  std::string variable;  // in the environment of every process of the run
  std::vector<std::string> argv;
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunStreams> streams;  // none: files are used, because they outlive the reader
};

// Whether the NAME of NAME=value is valid in a shell.
bool IsPlainName(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), plain);
}

std::string VariableOf(const std::string& run_id) { return "BERTH_RUN=" + run_id; }

Status CheckCommand(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty()) {
    return base::Error(StatusCode::kInvalidArgument, "run: no program given");
  }
  for (const std::string& variable : command.env) {
    if (variable.find('=') != std::string::npos && variable[0] != '-') continue;
    return base::Error(StatusCode::kInvalidArgument, "run: '{}' is no variable", variable);
  }
  return base::OkStatus();
}

// The time left for the call, which must not be zero.
std::chrono::milliseconds TimeLeft(StartSlots::TimePoint deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

StatusOr<Prepared> PrepareRun(const Command& command, const std::string& run_id,
                              RunFolders& folders) {
  Prepared prepared;
  prepared.variable = VariableOf(run_id);
  ASSIGN_OR_RETURN(prepared.folder, folders.MakeFolder());
  const RunFolder& folder = *prepared.folder;
  int secrets = 0;
  const auto place = [&](const std::string& content) -> StatusOr<std::string> {
    const std::string name = std::to_string(secrets++);
    RETURN_IF_ERROR(folder.Write(name, content));
    return folder.PathOf(name);
  };
  ASSIGN_OR_RETURN(const std::vector<std::string> argv, BuildArgv(command, place));
  const bool has_input = !command.stdin_data.empty();
  if (has_input) RETURN_IF_ERROR(folder.Write("in", command.stdin_data));
  if (command.leaves_daemon) {
    // A daemon that writes to a FIFO without a reader would be killed by SIGPIPE.
    RETURN_IF_ERROR(folder.Write("out", ""));
    RETURN_IF_ERROR(folder.Write("err", ""));
  } else {
    ASSIGN_OR_RETURN(prepared.streams, RunStreams::Open(folder, command.max_output));
  }
  prepared.argv = {
      "sh",      "-c", has_input ? kScript : kScriptWithoutInput, folder.path(), prepared.variable,
      "LC_ALL=C"};
  // `env` sets the variables that the shell cannot export under their names (a function of bash,
  // say).
  std::vector<std::string> strange;
  for (const std::string& variable : command.env) {
    (IsPlainName(variable) ? prepared.argv : strange).push_back(variable);
  }
  prepared.argv.emplace_back("--");
  if (!strange.empty()) {
    prepared.argv.emplace_back("env");
    prepared.argv.insert(prepared.argv.end(), strange.begin(), strange.end());
  }
  prepared.argv.insert(prepared.argv.end(), argv.begin(), argv.end());
  return prepared;
}

// Whether the script began. If it did not, it never will, because this takes its place: "began" is
// made by one of them alone. So what a failure of ExecSync means does not depend on the words of a
// container runtime.
bool HasBegun(const Prepared& prepared) { return !prepared.folder->Write(kBegan, "").ok(); }

// Whether the shell found no such program: its message begins with its $0, which no other process
// has.
bool IsOfShell(const CommandResult& result, const Prepared& prepared) {
  return result.exit_code == kNoProgram && result.err.starts_with(prepared.folder->path() + ": ");
}

void KillAll(const Prepared& prepared, const PodContainer& container, const Command& command) {
  if (const size_t left =
          platform::KillMarkedProcesses(prepared.variable, kKillGrace, container.id);
      left > 0) {
    LOG_WARNING("{} processes of '{}' in {} still exist, because they wait in the kernel", left,
                command.argv[0], container.Describe());
  }
}

// `why` is what the runtime said of a run that did not begin, for people.
Status NotStartedError(const Prepared& prepared, const PodContainer& container,
                       const Command& command, std::string_view why) {
  return base::Error(StatusCode::kFailedPrecondition,
                     "{} cannot run '{}': the container runtime did not start '{}' there, which it "
                     "needs: {}",
                     container.Describe(), command.argv[0], prepared.argv[0], why);
}

Status TimedOutError(const PodContainer& container, const Command& command) {
  return base::Error(StatusCode::kDeadlineExceeded,
                     "{} in {} did not end within {} ms and was killed", command.argv[0],
                     container.Describe(), command.timeout.count());
}

// Of a run that began, or may have begun.
Status FailureOf(const Status& status, const Prepared& prepared, const PodContainer& container,
                 const Command& command) {
  KillAll(prepared, container, command);
  if (status.code() == StatusCode::kDeadlineExceeded) return TimedOutError(container, command);
  const bool cancelled = status.code() == StatusCode::kCancelled;
  return base::Error(cancelled ? StatusCode::kCancelled : StatusCode::kUnavailable,
                     "{} in {}: what it did is unknown: {}", command.argv[0], container.Describe(),
                     base::ToString(status));
}

StatusOr<CommandResult> ResultOf(const rpc::cri::ExecSyncResponse& answer, const Prepared& prepared,
                                 const PodContainer& container, const Command& command) {
  if (answer.exit_code() == kWrapperFailed && answer.stderr().starts_with(prepared.variable)) {
    return base::Error(StatusCode::kFailedPrecondition,
                       "{} does not see '{}': it must mount the kubelet folder at the same path, "
                       "with mountPropagation Bidirectional or HostToContainer",
                       container.Describe(), prepared.folder->path());
  }
  if (answer.exit_code() != 0 && !HasBegun(prepared)) {
    return NotStartedError(
        prepared, container, command,
        fmt::format("exit code {}: {}", answer.exit_code(), answer.stderr().substr(0, kMostWords)));
  }
  // CRI-O's answer to a run that its own deadline ended.
  if (answer.exit_code() < 0) {
    KillAll(prepared, container, command);
    return TimedOutError(container, command);
  }
  CommandResult result{.exit_code = answer.exit_code(), .out = {}, .err = {}};
  if (prepared.streams != nullptr) {
    prepared.streams->FinishReading(result);
  } else {
    result.out = prepared.folder->Read("out", command.max_output);
    result.err = prepared.folder->Read("err", command.max_output);
  }
  // The answer's stderr holds what the shell printed before it opened the streams.
  if (result.err.empty()) result.err = answer.stderr().substr(0, command.max_output);
  if (IsOfShell(result, prepared)) {
    return base::Error(StatusCode::kNotFound, "no program '{}' in {}", command.argv[0],
                       container.Describe());
  }
  return result;
}

// What a failed ExecSync means, in the terms of Run.
StatusOr<std::optional<CommandResult>> ExplainFailure(const Status& status,
                                                      const Prepared& prepared,
                                                      const PodContainer& container,
                                                      const Command& command,
                                                      rpc::CriClient& runtime) {
  if (rpc::WasNotSent(status)) return status;
  if (HasBegun(prepared)) return FailureOf(status, prepared, container, command);
  switch (status.code()) {
    case StatusCode::kNotFound:
      return std::nullopt;
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kUnavailable:
      return rpc::NotSent(base::Error(status.code(), "'{}' was not run in {}: {}", command.argv[0],
                                      container.Describe(), base::Message(status)));
    default:
      break;
  }
  // A runtime has one code for a container that has ended and for one that has no shell.
  const auto running = IsRunning(runtime, container.id);
  if (running.ok() && !*running) return std::nullopt;
  return NotStartedError(prepared, container, command, base::Message(status));
}

}  // namespace

StatusOr<std::optional<CommandResult>> ContainerExec::Run(const PodContainer& container,
                                                          const Command& command,
                                                          const std::string& run_id) {
  RETURN_IF_ERROR(CheckCommand(command));
  platform::RunSpan span(command);
  const auto deadline = std::chrono::steady_clock::now() + command.timeout;
  const auto slot = slots_.TakeSlot(container.id, deadline);
  if (slot == nullptr) {
    const Status crowded =
        rpc::NotSent(base::Error(StatusCode::kDeadlineExceeded,
                                 "'{}' was not run: too many others were starting in {} for {} ms",
                                 command.argv[0], container.Describe(), command.timeout.count()));
    span.End(crowded);
    return crowded;
  }
  ASSIGN_OR_RETURN(const Prepared prepared, PrepareRun(command, run_id, folders_));
  rpc::cri::ExecSyncRequest request;
  request.set_container_id(container.id);
  for (const std::string& argument : prepared.argv) request.add_cmd(argument);
  request.set_timeout(
      std::chrono::ceil<std::chrono::seconds>(command.timeout + kRuntimeGrace).count());
  const auto answer = runtime_.ExecSync(request, TimeLeft(deadline), command.ending);
  if (!answer.ok()) {
    const auto failure = ExplainFailure(answer.status(), prepared, container, command, runtime_);
    span.End(failure.ok() ? answer.status() : failure.status());
    return failure;
  }
  auto result = ResultOf(*answer, prepared, container, command);
  span.End(result);
  RETURN_IF_ERROR(result);
  return *std::move(result);
}

Status ContainerExec::EndRun(const PodContainer& container, const std::string& run_id) {
  const size_t left = platform::KillMarkedProcesses(VariableOf(run_id), kKillGrace, container.id);
  if (left == 0) return base::OkStatus();
  return base::Error(
      StatusCode::kUnavailable,
      "{} processes of an earlier run in {} still exist, because they wait in the kernel", left,
      container.Describe());
}

}  // namespace berth::volume
