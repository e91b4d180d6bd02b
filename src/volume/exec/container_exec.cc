#include "volume/exec/container_exec.h"

#include "base/flight.h"
#include "base/ids.h"
#include "base/log.h"
#include "platform/marked_processes.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::Command;
using platform::CommandResult;

constexpr size_t kMaxSecret = 1 << 20;
constexpr std::chrono::seconds kKillGrace(2);
// The runtime's own deadline ends what an agent left that died.
constexpr std::chrono::seconds kRuntimeGrace(10);
constexpr int kWrapperFailed = 125;
constexpr int kNoProgram = 127;

// What is sent: argv, and the folder that its files are in.
struct Prepared {
  std::string variable;  // of every process of the run
  std::vector<std::string> argv;
  std::unique_ptr<RunFolder> folder;
};

// $0 is the folder, $1 and so on the program. What it says of itself begins with the run's
// variable, which no program knows beforehand.
std::string Script(const std::string& variable, bool stdin_file, bool output_files) {
  return fmt::format(R"([ -r "$0/in" ] || {{ echo '{}' >&2; exit {}; }}; exec "$@" <{}{})",
                     variable, kWrapperFailed, stdin_file ? R"("$0/in")" : "/dev/null",
                     output_files ? R"( >"$0/out" 2>"$0/err")" : "");
}

StatusOr<Prepared> Prepare(const Command& command, RunFolders& folders) {
  if (command.argv.empty()) {
    return base::Error(StatusCode::kInvalidArgument, "run: no program given");
  }
  const std::string& program = command.argv[0];
  if (program.empty() || program[0] == '-' || program.find('=') != std::string::npos) {
    return base::Error(StatusCode::kInvalidArgument, "run: '{}' is no program's name", program);
  }
  Prepared prepared;
  prepared.variable = "BERTH_RUN=" + base::NewUuid();
  std::vector<std::string> argv = command.argv;
  if (!command.stdin_data.empty() || !command.secrets.empty() || command.leaves_daemon) {
    ASSIGN_OR_RETURN(prepared.folder, folders.Make());
    const RunFolder& folder = *prepared.folder;
    RETURN_IF_ERROR(folder.Write("in", command.stdin_data));
    for (size_t i = 0; i < command.secrets.size(); ++i) {
      const platform::Secret& secret = command.secrets[i];
      if (secret.content.size() > kMaxSecret) {
        return base::Error(StatusCode::kInvalidArgument, "a secret of more than {} bytes",
                           kMaxSecret);
      }
      RETURN_IF_ERROR(folder.Write(std::to_string(i), secret.content));
      platform::PutSecretPath(argv, secret.name, folder.PathOf(std::to_string(i)));
    }
    if (command.leaves_daemon) {
      // Made here, so that they are nobody else's.
      RETURN_IF_ERROR(folder.Write("out", ""));
      RETURN_IF_ERROR(folder.Write("err", ""));
    }
    prepared.argv = {"sh", "-c",
                     Script(prepared.variable, !command.stdin_data.empty(), command.leaves_daemon),
                     folder.path()};
  }
  prepared.argv.insert(prepared.argv.end(), {"env", "LC_ALL=C", prepared.variable});
  prepared.argv.insert(prepared.argv.end(), command.env.begin(), command.env.end());
  prepared.argv.insert(prepared.argv.end(), argv.begin(), argv.end());
  return prepared;
}

// Errors of ExecSync, by the words of containerd and runc: they have one code for most of them.
bool Says(const Status& status, std::string_view part) {
  return base::Message(status).find(part) != std::string_view::npos;
}
bool HadStarted(const Status& status) { return Says(status, "failed while waiting"); }
bool IsContainerGone(const Status& status) {
  if (HadStarted(status)) return false;
  if (status.code() == StatusCode::kNotFound) return true;
  if (status.code() != StatusCode::kUnknown && status.code() != StatusCode::kFailedPrecondition) {
    return false;
  }
  return Says(status, "container is in CONTAINER_") || Says(status, "in a stopped container") ||
         Says(status, "is not running");
}
bool CouldNotStart(const Status& status) {
  return !HadStarted(status) && status.code() == StatusCode::kUnknown &&
         (Says(status, "failed to start exec") || Says(status, "failed to create exec")) &&
         Says(status, "OCI runtime exec failed");
}

// `env` found no such program: exit code and words of it, in coreutils and in busybox.
bool IsOfEnv(const CommandResult& result, const std::string& program) {
  const std::string_view err = result.err;
  return result.exit_code == kNoProgram && err.starts_with("env: ") &&
         err.find(program) != std::string_view::npos &&
         err.find("No such file or directory") != std::string_view::npos;
}

// What the flight record keeps of the arguments: others may hold what a person keeps secret.
std::string PathOf(const Command& command) {
  for (size_t i = command.argv.size() - 1; i > 0; --i) {
    if (command.argv[i].starts_with('/')) return command.argv[i];
  }
  return "";
}

void KillAll(const Prepared& prepared, const PodContainer& container, const Command& command) {
  if (const size_t left = platform::KillMarked(prepared.variable, kKillGrace); left > 0) {
    LOG_WARNING("{} processes of '{}' in {} were killed and are not gone yet", left,
                command.argv[0], container.Name());
  }
}

Status FailureOf(const Status& status, const Prepared& prepared, const PodContainer& container,
                 const Command& command) {
  if (rpc::WasNotSent(status)) return status;
  if (CouldNotStart(status)) {
    const StatusCode code =
        Says(status, "executable file not found") || Says(status, "no such file or directory")
            ? StatusCode::kFailedPrecondition
            : StatusCode::kInternal;
    return base::Error(code, "{} cannot run '{}': it needs '{}': {}", container.Name(),
                       command.argv[0], prepared.argv[0], base::Message(status));
  }
  KillAll(prepared, container, command);
  if (status.code() == StatusCode::kDeadlineExceeded) {
    return base::Error(StatusCode::kDeadlineExceeded,
                       "{} in {} did not end within {} ms and was killed", command.argv[0],
                       container.Name(), command.timeout.count());
  }
  const bool cancelled = status.code() == StatusCode::kCancelled;
  return base::Error(cancelled ? StatusCode::kCancelled : StatusCode::kUnavailable,
                     "{} in {}: what it did is unknown: {}", command.argv[0], container.Name(),
                     base::ToString(status));
}

StatusOr<CommandResult> ResultOf(rpc::cri::ExecSyncResponse answer, const Prepared& prepared,
                                 const PodContainer& container, const Command& command) {
  CommandResult result{.exit_code = answer.exit_code(),
                       .out = std::move(*answer.mutable_stdout()),
                       .err = std::move(*answer.mutable_stderr())};
  if (result.exit_code == kWrapperFailed && result.err.starts_with(prepared.variable)) {
    return base::Error(StatusCode::kFailedPrecondition,
                       "{} does not see '{}': it must mount the kubelet folder at the same path, "
                       "with mountPropagation Bidirectional or HostToContainer",
                       container.Name(), prepared.folder->path());
  }
  if (prepared.folder != nullptr && command.leaves_daemon) {
    // What the shell itself had to say stands before.
    result.out += prepared.folder->Read("out", command.max_output);
    result.err += prepared.folder->Read("err", command.max_output);
  }
  if (IsOfEnv(result, command.argv[0])) {
    return base::Error(StatusCode::kNotFound, "no program '{}' in {}", command.argv[0],
                       container.Name());
  }
  if (result.out.size() > command.max_output) result.out.resize(command.max_output);
  if (result.err.size() > command.max_output) result.err.resize(command.max_output);
  return result;
}

}  // namespace

StatusOr<std::optional<CommandResult>> ContainerExec::Run(const PodContainer& container,
                                                          const Command& command) {
  ASSIGN_OR_RETURN(const Prepared prepared, Prepare(command, folders_));
  rpc::cri::ExecSyncRequest request;
  request.set_container_id(container.id);
  for (const std::string& argument : prepared.argv) request.add_cmd(argument);
  request.set_timeout(
      std::chrono::ceil<std::chrono::seconds>(command.timeout + kRuntimeGrace).count());
  base::FlightSpan span(base::FlightKind::kProcess,
                        command.argv[0].substr(command.argv[0].rfind('/') + 1), PathOf(command));
  auto answer = runtime_.ExecSync(request, command.timeout);
  if (!answer.ok()) {
    if (IsContainerGone(answer.status()) && !rpc::WasNotSent(answer.status())) {
      span.End(answer.status());
      return std::nullopt;
    }
    const Status failure = FailureOf(answer.status(), prepared, container, command);
    span.End(failure);
    return failure;
  }
  auto result = ResultOf(*std::move(answer), prepared, container, command);
  span.End(!result.ok() ? result.status()
           : result->exit_code == 0
               ? base::OkStatus()
               : base::Error(StatusCode::kUnknown, "exited with {}", result->exit_code));
  RETURN_IF_ERROR(result);
  return *std::move(result);
}

}  // namespace berth::volume
