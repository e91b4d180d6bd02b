#include "block/proxy/volume_program.h"

#include <thread>

#include "base/fault.h"
#include "base/ipc/connection.h"
#include "base/ipc/export_call.h"
#include "base/json.h"
#include "base/log.h"
#include "block/proxy/ipc_problem.h"
#include "platform/files/durable_file.h"

namespace berth::block::proxy {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::ipc::Message;
using std::chrono::steady_clock;

namespace calls = base::ipc::volume_export;

namespace {

constexpr std::chrono::milliseconds kServePause{5};

base::ipc::Result<Message> AskProgram(const ExportCall& call, std::string_view method,
                                      steady_clock::time_point deadline) {
  Message request;
  request.Set(base::ipc::kMethod, std::string(method));
  return base::ipc::Call(call.socket, request, deadline);
}

base::StatusOr<Message> CallProgram(const ExportCall& call, std::string_view method,
                                    steady_clock::time_point deadline) {
  auto reply = AskProgram(call, method, deadline);
  if (reply.ok()) return *std::move(reply);
  return Error(CodeOf(reply.failure()), "{}: {}: {}", call.volume.program, method,
               reply.failure().text);
}

// Why the program ended before it served, as its log tells.
base::Status ReadFailure(const ExportCall& call) {
  const std::string_view program = call.volume.program;
  const auto log = platform::ReadFile(call.log);
  std::string_view text = log.ok() ? std::string_view(*log) : std::string_view();
  std::string_view last;  // the last line, for a program that could not even report
  while (!text.empty()) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const size_t begin = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
    const std::string_view line = text.substr(begin);
    text = text.substr(0, begin);
    if (last.empty()) last = line;
    if (!line.starts_with('{')) continue;
    const auto report = base::json::Parse(line);
    const std::string message =
        report.ok() ? base::json::String(*report, {"error", "message"}) : std::string();
    if (message.empty()) continue;
    return base::Status(base::ParseCodeName(base::json::String(*report, {"error", "code"})),
                        base::ToAbsl(fmt::format("{}: {}", program, message)));
  }
  return Error(StatusCode::kUnavailable, "{} ended before it served the volume; its last line: {}",
               program, Quote(last));
}

}  // namespace

// The settings are written before the program runs.
static_assert(calls::kMostSettings <= platform::kMostInput);

base::StatusOr<platform::DaemonId> StartVolumeProgram(const ExportCall& call, int held) {
  Json settings = call.volume.settings.is_object() ? call.volume.settings : Json::object();
  settings[calls::kSocket] = call.socket;
  settings[calls::kFile] = call.file;
  settings[calls::kImage] = call.volume.image;
  settings[calls::kReadOnly] = call.volume.read_only;
  settings[calls::kShared] = call.volume.shared;
  return platform::StartDaemon({.program = call.volume.program,
                                .arguments = {"serve"},
                                .mark = call.mark,
                                .log = call.log,
                                .input = base::json::Dump(settings),
                                .held = held});
}

base::Status AwaitVolumeProgram(const ExportCall& call, steady_clock::time_point deadline) {
  for (;;) {
    const base::Status answered = CallProgram(call, calls::kStatus, deadline).status();
    if (answered.code() != StatusCode::kUnavailable) {
      RETURN_IF_ERROR(answered);
      return base::FaultPoint<"block.proxy_export.shown">();
    }
    const auto process = platform::OpenDaemon(call.daemon);
    if (process.ok() && !process->valid()) return ReadFailure(call);
    if (call.stop.stop_requested()) {
      return Error(StatusCode::kCancelled, "the I/O proxy ends before {} serves the volume",
                   call.volume.program);
    }
    if (steady_clock::now() >= deadline) {
      return Error(StatusCode::kDeadlineExceeded, "{} does not serve the volume",
                   call.volume.program);
    }
    std::this_thread::sleep_for(kServePause);
  }
}

base::Status GrowVolumeProgram(const ExportCall& call, int64_t size,
                               steady_clock::time_point deadline) {
  ASSIGN_OR_RETURN(const Message reply, CallProgram(call, calls::kResize, deadline));
  const int64_t has = reply.FindNumber(calls::kSize).value_or(0);
  if (has >= size) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "{}: volume {} has {} bytes, fewer than {}",
               call.volume.program, Quote(call.volume.image), has, size);
}

bool HasProgramFlushed(const ExportCall& call, steady_clock::time_point deadline) {
  const auto reply = AskProgram(call, calls::kStatus, deadline);
  return reply.ok() && reply->FindNumber(calls::kFlushed).value_or(0) != 0;
}

bool HasProgramReportedFlush(const ExportCall& call) {
  // The log is that of the last start alone.
  const auto log = platform::ReadFile(call.log);
  return log.ok() && fmt::format("\n{}", *log).find(fmt::format("\n{}\n", calls::kFlushedReport)) !=
                         std::string::npos;
}

base::Status QuitVolumeProgram(const ExportCall& call, steady_clock::time_point deadline) {
  const auto told = AskProgram(call, calls::kQuit, deadline);
  if (told.ok()) return base::OkStatus();
  const base::ipc::Failure& failure = told.failure();
  // A program of an earlier version gives no code, and refuses mostly because of a failed flush.
  const bool without_code = failure.problem == base::ipc::Problem::kRefused && failure.code.empty();
  return Error(without_code ? StatusCode::kDataLoss : CodeOf(failure), "{}: {}: {}",
               call.volume.program, calls::kQuit, failure.text);
}

}  // namespace berth::block::proxy
