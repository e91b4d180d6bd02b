#include "cmd/berth-oci/guest_commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>

#include "base/files/whole_file.h"
#include "base/ipc/connection.h"
#include "base/ipc/container_call.h"
#include "base/ipc/crust_call.h"
#include "cmd/berth-oci/console.h"
#include "cmd/berth-oci/files.h"
#include "cmd/berth-oci/handler_call.h"
#include "cmd/berth-oci/stand_in.h"

namespace berth::oci {

namespace ipc = base::ipc;
namespace call = base::ipc::container;
namespace crust = base::ipc::crust;
using base::UniqueFd;
using ipc::Failure;
using ipc::Message;
using ipc::Problem;
using ipc::Result;

namespace {

constexpr size_t kLargestSpec = 512 * 1024;
constexpr int kEndTime = 10'000;  // milliseconds

Failure Refuse(std::string text) { return {Problem::kRefused, std::move(text), ""}; }

Message MakeCall(std::string_view method, const Arguments& arguments, const GuestRecord& record) {
  return Message()
      .Set(ipc::kMethod, std::string(method))
      .Set(crust::kSandbox, record.sandbox)
      .Set(call::kContainer, arguments.id);
}

// Writes the file at once, because containerd may look at any moment.
Failure WritePidFile(const std::string& path, pid_t pid) {
  if (path.empty()) return ipc::Ok();
  const std::string fresh = path + ".berth-new";
  const UniqueFd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const int error = file.valid() ? base::WriteAll(file.get(), std::to_string(pid)) : errno;
  if (error == 0 && rename(fresh.c_str(), path.c_str()) == 0) return ipc::Ok();
  return ipc::SystemFailure("write '" + path + "'", error != 0 ? error : errno);
}

Result<pid_t> LeaveFor(const Arguments& arguments, StandIn stand_in) {
  if (!arguments.console_socket.empty()) {
    Result<UniqueFd> terminal = OpenConsole(arguments.console_socket);
    if (!terminal.ok()) return terminal.failure();
    stand_in.terminal = std::move(*terminal);
  }
  const Result<pid_t> pid = LeaveStandIn(std::move(stand_in));
  if (!pid.ok()) return pid.failure();
  if (Failure written = WritePidFile(arguments.pid_file, *pid); !written.ok()) {
    kill(*pid, SIGKILL);
    return written;
  }
  return *pid;
}

// Kills the stand-in, and waits for its end. The guest kills its process then.
Failure EndStandIn(const std::string& path) {
  const pid_t pid = FindStandIn(path);
  if (pid == 0) return ipc::Ok();
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid() || FindStandIn(path) != pid) return ipc::Ok();  // it has just ended
  syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  pollfd polled = {.fd = process.get(), .events = POLLIN, .revents = 0};
  if (poll(&polled, 1, kEndTime) == 1) return ipc::Ok();
  return Refuse("the stand-in of the container does not end");
}

std::string MakeProcessName() {
  unsigned char bytes[8] = {};
  static_cast<void>(getrandom(bytes, sizeof(bytes), 0));
  std::string name = "e";
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

// The number of "9", "KILL" or "SIGKILL"; 0: there is no such signal.
int ParseSignal(std::string_view text) {
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) {
    return number > 0 && number < NSIG ? number : 0;
  }
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (number = 1; number < NSIG; ++number) {
    const char* name = sigabbrev_np(number);
    if (name != nullptr && text == name) return number;
  }
  return 0;
}

Result<int> Exec(const Config& config, const Arguments& arguments, const GuestRecord& record) {
  if (record.is_sandbox) return Refuse("a sandbox that is a virtual machine runs no processes");
  if (arguments.process.empty()) return Refuse("exec needs --process for a container of a guest");
  const Result<std::string> spec = ReadFile(arguments.process, kLargestSpec);
  if (!spec.ok()) return spec.failure();
  const std::string name = MakeProcessName();
  const Message request = MakeCall(call::kExec, arguments, record)
                              .Set(call::kProcess, name)
                              .Set(call::kSpec, *spec)
                              .Set(call::kTerminal, arguments.console_socket.empty() ? 0 : 1);
  std::vector<UniqueFd> received;
  const Result<Message> reply = CallHandler(config, request, {}, &received);
  if (!reply.ok()) return reply.failure();
  if (received.size() != 1) return Refuse("Berth's CRUST handler gave no stream of the guest");
  const Result<pid_t> pid = LeaveFor(arguments, {.name = call::StreamName(arguments.id, name),
                                                 .line = std::move(received.front()),
                                                 .machine = {},
                                                 .terminal = {},
                                                 .record = ""});
  if (!pid.ok()) return pid.failure();
  if (arguments.detach) return 0;
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0) {
    if (errno != EINTR) return ipc::SystemFailure("wait for the process", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<int> Kill(const Arguments& arguments, const std::string& path) {
  const int signal = arguments.words.size() < 2 ? SIGTERM : ParseSignal(arguments.words[1]);
  if (signal == 0) return Refuse("there is no signal '" + arguments.words[1] + "'");
  const pid_t pid = FindStandIn(path);
  if (pid == 0) return Refuse("container not running");  // containerd looks for these words
  if (Failure sent = SignalStandIn(pid, signal, arguments.all); !sent.ok()) return sent;
  return 0;
}

Result<int> Delete(const Config& config, const Arguments& arguments, const GuestRecord& record,
                   const std::string& path) {
  if (!arguments.force && FindStandIn(path) != 0) {
    return Refuse("cannot delete container " + arguments.id + " that is not stopped");
  }
  if (!record.is_sandbox) {
    const Message request =
        MakeCall(call::kDelete, arguments, record).Set(call::kForce, arguments.force ? 1 : 0);
    const Result<Message> reply = CallHandler(config, request, {}, nullptr);
    // With --force nothing may be left here, although the handler is gone: the guest kills what
    // has no stand-in, and the handler clears up with the end of the sandbox.
    const bool gone = !reply.ok() && reply.failure().code == "NOT_FOUND";
    if (!reply.ok() && !gone && !arguments.force) return reply.failure();
  }
  if (Failure ended = EndStandIn(path); !ended.ok()) return ended;
  RemoveGuestRecord(path);
  if (record.is_sandbox) ReportSandboxEnd(config, arguments.id);
  return 0;
}

Result<int> PrintState(const Config& config, const Arguments& arguments, const GuestRecord& record,
                       const std::string& path) {
  const pid_t pid = FindStandIn(path);
  std::string status = pid == 0 ? "stopped" : "running";
  if (pid != 0 && !record.is_sandbox) {
    const Result<Message> reply =
        CallHandler(config, MakeCall(call::kState, arguments, record), {}, nullptr);
    if (!reply.ok()) return reply.failure();
    if (const std::string* told = reply->FindText(call::kStatus)) status = *told;
  }
  WriteText(STDOUT_FILENO, ipc::WriteJson(Message()
                                              .Set("ociVersion", std::string("1.0.2"))
                                              .Set("id", arguments.id)
                                              .Set("pid", pid)
                                              .Set("status", status)
                                              .Set("bundle", record.bundle)) +
                               "\n");
  return 0;
}

// Makes a call whose reply is the output of the command.
Result<int> Ask(const Config& config, const Arguments& arguments, const GuestRecord& record,
                std::string_view method) {
  if (record.is_sandbox) return Refuse("a sandbox that is a virtual machine runs no processes");
  Message request = MakeCall(method, arguments, record);
  if (method == call::kUpdate) {
    std::string text;
    const int error = arguments.resources == "-"
                          ? base::ReadAll(STDIN_FILENO, kLargestSpec, text)
                          : base::ReadWholeFile(arguments.resources, kLargestSpec, text);
    if (error != 0) return ipc::SystemFailure("read '" + arguments.resources + "'", error);
    request.Set(call::kText, text);
  }
  const Result<Message> reply = CallHandler(config, request, {}, nullptr);
  if (!reply.ok()) return reply.failure();
  if (const std::string* text = reply->FindText(call::kText)) WriteText(STDOUT_FILENO, *text);
  return 0;
}

}  // namespace

Failure FinishGuestCreate(const Config& config, const Arguments& arguments, Prepared prepared) {
  const std::string path = GuestRecordPath(arguments.root, arguments.id);
  const GuestRecord record = {
      .sandbox = prepared.sandbox, .bundle = prepared.bundle, .is_sandbox = prepared.is_sandbox};
  if (path.empty()) return Refuse("'" + arguments.id + "' is no id of a container");
  if (Failure written = WriteGuestRecord(path, record); !written.ok()) return written;
  StandIn stand_in = {.name = call::StreamName(arguments.id, ""),
                      .line = {},
                      .machine = {},
                      .terminal = {},
                      .record = path};
  (prepared.is_sandbox ? stand_in.machine : stand_in.line) = std::move(prepared.guest);
  const Result<pid_t> pid = arguments.command == "create"
                                ? LeaveFor(arguments, std::move(stand_in))
                                : Refuse("a container of a guest is created and then started");
  if (pid.ok()) return ipc::Ok();
  if (!prepared.is_sandbox) {
    // The failure that counts is the one above.
    static_cast<void>(CallHandler(
        config, MakeCall(call::kDelete, arguments, record).Set(call::kForce, 1), {}, nullptr));
  }
  RemoveGuestRecord(path);
  return pid.failure();
}

Result<int> RunGuestCommand(const Config& config, const Arguments& arguments,
                            const GuestRecord& record) {
  const std::string path = GuestRecordPath(arguments.root, arguments.id);
  const std::string& command = arguments.command;
  if (command == "create" || command == "run") {
    return Refuse("container with given ID already exists");
  }
  if (command == "exec") return Exec(config, arguments, record);
  if (command == "kill") return Kill(arguments, path);
  if (command == "delete") return Delete(config, arguments, record, path);
  if (command == "state") return PrintState(config, arguments, record, path);
  if (command == "start") {
    return record.is_sandbox ? Result<int>(0) : Ask(config, arguments, record, call::kStart);
  }
  if (command == "ps") return Ask(config, arguments, record, call::kProcesses);
  if (command == "events") return Ask(config, arguments, record, call::kStats);
  if (command == "update") {
    if (record.is_sandbox) return 0;  // the size of the machine is the handler's
    if (!arguments.resources.empty()) return Ask(config, arguments, record, call::kUpdate);
    return Refuse("update needs --resources for a container of a guest");
  }
  if (command == "pause") return Ask(config, arguments, record, call::kPause);
  if (command == "resume") return Ask(config, arguments, record, call::kResume);
  return Refuse("a container of a guest has no '" + command + "'");
}

void ReportSandboxEnd(const Config& config, const std::string& id) {
  const auto reply = ipc::Call(
      config.socket, Message().Set(ipc::kMethod, std::string(crust::kEnd)).Set(crust::kSandbox, id),
      ipc::DeadlineIn(crust::kEndTime));
  if (!reply.ok()) WriteText(STDERR_FILENO, "berth-oci: " + reply.failure().text + "\n");
}

}  // namespace berth::oci
