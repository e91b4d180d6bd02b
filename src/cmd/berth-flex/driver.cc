#include "cmd/berth-flex/driver.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/ipc/block_call.h"
#include "base/ipc/block_trailer.h"
#include "base/ipc/connection.h"
#include "base/text.h"
#include "base/utf8.h"

namespace berth::flex {

namespace ipc = base::ipc;
namespace block = base::ipc::block;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstPause{5};
constexpr milliseconds kLongestPause{500};

// Replaces each byte that is not UTF-8 by '?'. An error may have any bytes, and some JSON readers
// of kubelets refuse the lone surrogates that ipc::WriteJson writes for such bytes.
std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = base::Utf8Length(text);
    clean.append(length == 0 ? "?" : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

Reply MakeReply(std::string_view status, const std::string& message) {
  ipc::Message reply;
  reply.Set("status", std::string(status));
  if (!message.empty()) reply.Set("message", ReplaceInvalidUtf8(message));
  return {status == "Success" ? 0 : 1, ipc::WriteJson(reply) + "\n"};
}

Reply MakeFailure(const std::string& why) { return MakeReply("Failure", why); }

// Watches the socket's folder, so that a wait ends when a file appears there.
class SocketWatch {
 public:
  explicit SocketWatch(const std::string& socket) : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    const std::string folder(base::FolderOf(socket));
    // If the folder does not exist yet, there is no watch, and each wait takes its full time.
    if (fd_.valid()) inotify_add_watch(fd_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO);
  }
  // Waits until a file appears in the folder, and at most for `pause`.
  void WaitForChange(milliseconds pause) {
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(pause.count())) <= 0) return;
    // Discards the events. The agent may not answer yet, because its socket's file appears (bind)
    // before it listens; then the caller waits again.
    alignas(inotify_event) char events[4096];
    while (read(fd_.get(), events, sizeof(events)) > 0) {
    }
  }

 private:
  base::UniqueFd fd_;
};

bool IsUnreachable(ipc::Problem problem) {
  return problem == ipc::Problem::kNobody || problem == ipc::Problem::kClosed;
}

// Waits until the deadline for an agent that is not there.
ipc::Result<ipc::Message> CallAgainWhenThere(const std::string& socket, const ipc::Message& request,
                                             ipc::Deadline deadline) {
  ipc::Result<ipc::Message> reply = ipc::Call(socket, request, deadline);
  if (reply.ok() || !IsUnreachable(reply.failure().problem)) return reply;
  SocketWatch watch(socket);
  milliseconds pause = kFirstPause;
  while (!reply.ok() && IsUnreachable(reply.failure().problem)) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    watch.WaitForChange(std::min(pause, left));
    pause = std::min(pause * 2, kLongestPause);
    reply = ipc::Call(socket, request, deadline);
  }
  return reply;
}

std::string ExplainFailure(const ipc::Failure& failure, const std::string& socket,
                           milliseconds patience, bool waits) {
  const std::string waited =
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) + " s";
  switch (failure.problem) {
    case ipc::Problem::kRefused:
      return failure.text;
    case ipc::Problem::kNobody:
    case ipc::Problem::kClosed:
      return "Berth's block agent of this node was not there" + (waits ? " for " + waited : "") +
             " (" + failure.text + "): check whether its pod runs on this node" +
             (waits ? "" : "; when it starts, it installs this driver again, which is then found");
    case ipc::Problem::kTimeout:
      return "Berth's block agent gave no answer at '" + socket + "' within " + waited +
             "; it continues, and the next call finds the result: " + failure.text;
    default:
      return "ask Berth's block agent at '" + socket + "': " + failure.text;
  }
}

ipc::Message MakeRequest(std::string_view method) {
  ipc::Message request;
  request.Set(ipc::kMethod, std::string(method)).Set(block::kVersion, block::kProtocol);
  return request;
}

// What a call of the kubelet has, and the method of the agent that it becomes.
struct CallFacts {
  std::string_view name;
  size_t count;  // its arguments, with its name
  std::string_view method;
  size_t dir;  // which argument is the folder of the mount; 0: none
};
constexpr CallFacts kCalls[] = {
    {.name = "init", .count = 1, .method = block::kInit, .dir = 0},
    {.name = "mount", .count = 3, .method = block::kMount, .dir = 1},
    {.name = "unmount", .count = 2, .method = block::kUnmount, .dir = 1},
    {.name = "expandfs", .count = 6, .method = block::kExpand, .dir = 3},
};

std::optional<int64_t> ReadBytes(std::string_view text) {
  int64_t bytes = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (problem != std::errc() || end != text.data() + text.size() || bytes <= 0) return std::nullopt;
  return bytes;
}

std::string_view ReadFlag(const ipc::Message& trailer, std::string_view name) {
  const std::string* value = trailer.FindText(name);
  return value != nullptr && *value == "false" ? "false" : "true";
}

// Returns the reply to init. It is written as text, because the capabilities are a JSON object, and
// ipc::Message has no nested objects.
std::string MakeCapabilities(const ipc::Message& trailer) {
  std::string text =
      R"({"status":"Success","capabilities":{"attach":false,"supportsMetrics":true,"fsGroup":)";
  text += ReadFlag(trailer, block::kTrailerFsGroup);
  text += R"(,"selinuxRelabel":)";
  text += ReadFlag(trailer, block::kTrailerRelabel);
  return text + "}}\n";
}

}  // namespace

Patience DefaultPatience() { return {block::kInitTime, block::kCallTime}; }

Reply RunDriver(const std::vector<std::string>& arguments, const std::string& executable,
                Patience patience) {
  const std::string_view call = arguments.empty() ? "" : std::string_view(arguments[0]);
  const auto* const facts = std::ranges::find(kCalls, call, &CallFacts::name);
  if (facts == std::end(kCalls)) return MakeReply("Not supported", "");
  if (arguments.size() != facts->count) {
    return MakeFailure("'" + std::string(call) + "' was given " +
                       std::to_string(arguments.size() - 1) + " arguments and has " +
                       std::to_string(facts->count - 1));
  }
  const auto trailer = block::ReadTrailer(executable);
  const std::string* socket = trailer.ok() ? trailer->FindText(block::kTrailerSocket) : nullptr;
  if (socket == nullptr) {
    return MakeFailure(trailer.ok() ? "the driver's trailer names no socket"
                                    : trailer.failure().text);
  }
  ipc::Message request = MakeRequest(facts->method);
  if (facts->dir != 0) request.Set(block::kMountDir, arguments[facts->dir]);
  if (call == "mount") request.Set(block::kOptions, arguments[2]);
  if (call == "expandfs") {
    const std::optional<int64_t> bytes = ReadBytes(arguments[4]);
    if (!bytes.has_value()) return MakeFailure("'" + arguments[4] + "' is not a size in bytes");
    request.Set(block::kNewBytes, *bytes);
  }
  const bool waits = call != "init";
  const milliseconds time = waits ? patience.call : patience.init;
  const ipc::Deadline deadline = ipc::DeadlineIn(time);
  const auto reply = waits ? CallAgainWhenThere(*socket, request, deadline)
                           : ipc::Call(*socket, request, deadline);
  if (!reply.ok()) return MakeFailure(ExplainFailure(reply.failure(), *socket, time, waits));
  const auto version = reply->FindNumber(block::kVersion);
  if (version != block::kProtocol) {
    return MakeFailure("this driver speaks version " + std::to_string(block::kProtocol) +
                       " and the block agent version " + std::to_string(version.value_or(0)) +
                       ": restart the agent, which installs its own driver");
  }
  if (call == "init") return {0, MakeCapabilities(*trailer)};
  return MakeReply("Success", "");
}

}  // namespace berth::flex
