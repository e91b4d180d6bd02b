#include "block/storage_program.h"

#include "base/log.h"
#include "block/progress.h"
#include "platform/processes/error_lines.h"
#include "platform/processes/own_folder.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// An image is named in some 400 bytes, so this is room for more images than a pool has.
constexpr size_t kLargestAnswer = 64 * 1024 * 1024;
constexpr size_t kLongestMessage = 2048;

std::string PathOf(std::string_view name) {
  std::string own = platform::FindInOwnFolder(name);
  return own.empty() ? std::string(name) : own;
}

std::string WithoutSecret(std::string text, const std::string& secret) {
  for (size_t at = secret.empty() ? std::string::npos : text.find(secret); at != std::string::npos;
       at = text.find(secret, at)) {
    text.replace(at, secret.size(), "(secret)");
  }
  // Only now, because a part of the secret could not be recognised.
  if (text.size() > kLongestMessage) text.resize(kLongestMessage);
  return text;
}

// Passes the progress that the program prints to standard error, as {"progress": 0.43}, to the
// ProgressScope of this thread.
platform::ErrorLines ListenForProgress() {
  return platform::ErrorLines([report = ProgressReport()](std::string_view line) {
    if (!line.starts_with("{")) return;
    const auto said = base::json::Parse(line, {.max_bytes = kLongestMessage});
    if (!said.ok()) return;
    const Json* part = base::json::Find(*said, {"progress"});
    if (part != nullptr && part->is_number()) report(part->get<double>());
  });
}

}  // namespace

StorageProgram::StorageProgram(platform::Exec& exec, std::string_view name)
    : exec_(exec), name_(name), path_(PathOf(name)) {}

StatusOr<Json> StorageProgram::Call(const Json& request, const std::string& secret,
                                    std::chrono::milliseconds timeout) const {
  const std::string call = base::json::String(request, {"call"});
  const platform::ErrorLines listening = ListenForProgress();
  const auto ran = exec_.Run({.argv = {path_, "call"},
                              .stdin_data = base::json::Dump(request),
                              .timeout = timeout,
                              .max_output = kLargestAnswer});
  if (ran.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is not installed: neither beside this program nor in PATH", name_);
  }
  if (ran.status().code() == StatusCode::kDeadlineExceeded) {
    return Error(StatusCode::kDeadlineExceeded, "{} {}: the storage did not answer within {} s",
                 name_, call, std::chrono::ceil<std::chrono::seconds>(timeout).count());
  }
  RETURN_IF_ERROR_WITH(ran, fmt::format("run {} {}", name_, call));
  auto answer = base::json::Parse(ran->out, {.max_bytes = kLargestAnswer});
  if (ran->exit_code == 0 && answer.ok() && answer->is_object()) return answer;
  const std::string message =
      answer.ok() ? base::json::String(*answer, {"error", "message"}) : std::string();
  if (message.empty()) {
    return Error(StatusCode::kInternal, "{} {} ended with {} and without an answer: {}", name_,
                 call, ran->exit_code, WithoutSecret(ran->err, secret));
  }
  const std::string text = WithoutSecret(message, secret);
  return Status(base::ParseCodeName(base::json::String(*answer, {"error", "code"})),
                base::ToAbsl(text));
}

}  // namespace berth::block
