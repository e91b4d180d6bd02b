#include "guest/containers/container_server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "base/files/whole_file.h"

namespace berth::guest {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Failure;
using ipc::Message;
using ipc::Problem;
using ipc::Result;

namespace {

constexpr int kOrphanTime = 2'000;  // milliseconds between looks for orphans that have ended
constexpr size_t kMostCalls = 64;   // at the same time
constexpr std::chrono::milliseconds kPortStep{2};

Message MakeError(std::string_view code, std::string text) {
  return Message().Set(ipc::kError, std::move(text)).Set(ipc::kErrorCode, std::string(code));
}

// Takes the next whole line out of `bytes`. False: there is none.
bool TakeLine(std::string& bytes, std::string& line) {
  const size_t end = bytes.find('\n');
  if (end == std::string::npos) return false;
  line.assign(bytes, 0, end);
  bytes.erase(0, end + 1);
  return true;
}

// The replies of all threads, one line at a time.
class ReplyLine {
 public:
  explicit ReplyLine(int fd) : fd_(fd) {}
  void Send(Message reply, int64_t id) {
    const std::string text = ipc::WriteJson(reply.Set(kCallId, id)) + "\n";
    const std::lock_guard lock(mutex_);
    // A failure means that pid 1 has ended, which the reader sees as well.
    static_cast<void>(base::WriteAll(fd_, text));
  }

 private:
  const int fd_;
  std::mutex mutex_;
};

struct Call {
  std::jthread thread;
  std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
};

void AnswerLine(std::string_view line, ContainerService& service, ReplyLine& replies,
                std::list<Call>& calls) {
  Result<Message> request = ipc::ReadJson(line);
  const auto id = request.ok() ? request->FindNumber(kCallId) : std::nullopt;
  if (!id) return;  // nobody waits for a reply
  calls.remove_if([](const Call& call) { return call.done->load(); });
  if (calls.size() >= kMostCalls) {
    replies.Send(MakeError("RESOURCE_EXHAUSTED", "too many calls about containers"), *id);
    return;
  }
  Call& call = calls.emplace_back();
  call.thread = std::jthread([&service, &replies, request = std::move(*request), id = *id,
                              done = call.done] {
    const Result<Message> reply = service.Handle(request);
    replies.Send(reply.ok() ? *reply : MakeError(reply.failure().code, reply.failure().text), id);
    done->store(true);
  });
}

// The device of the port with this name; "": there is none.
std::string FindPort(const std::string& classes, const std::string& name) {
  DIR* folder = opendir(classes.c_str());
  if (folder == nullptr) return "";
  std::string found;
  while (const dirent* entry = readdir(folder)) {
    const std::string device = entry->d_name;
    std::string text;
    if (device.starts_with('.') ||
        base::ReadWholeFile(classes + "/" + device + "/name", 4096, text) != 0) {
      continue;
    }
    if (text.ends_with('\n')) text.pop_back();
    if (text == name) found = device;
  }
  closedir(folder);
  return found;
}

}  // namespace

void ServeContainers(UniqueFd line, ContainerService& service) {
  ReplyLine replies(line.get());
  std::list<Call> calls;  // after the replies, because its threads use them
  std::string bytes, text;
  char chunk[65536];
  while (true) {
    pollfd polled = {.fd = line.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&polled, 1, kOrphanTime);
    if (ready < 0 && errno != EINTR) return;
    service.ReapOrphans();
    if (ready <= 0) continue;
    const ssize_t n = read(line.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes.append(chunk, static_cast<size_t>(n));
    while (TakeLine(bytes, text)) AnswerLine(text, service, replies, calls);
    if (bytes.size() > kLargestCall) return;
  }
}

Result<UniqueFd> OpenVirtioPort(const std::string& classes, const std::string& devices,
                                const std::string& name, ipc::Deadline deadline) {
  while (true) {
    // The device may come a moment after its entry in /sys.
    const std::string device = FindPort(classes, name);
    if (!device.empty()) {
      UniqueFd port(open((devices + "/" + device).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      if (port.valid()) return port;
      // Another process has it, whose stand-in has ended.
      if (errno == EBUSY) {
        return Failure{Problem::kRefused, "port '" + name + "' is still in use", "ABORTED"};
      }
      if (errno != ENOENT && errno != ENXIO) {
        return ipc::SystemFailure("open port '" + name + "'", errno);
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Failure{Problem::kTimeout, "the guest has no port '" + name + "'", ""};
    }
    std::this_thread::sleep_for(kPortStep);
  }
}

ContainerClient::ContainerClient(UniqueFd line) : line_(std::move(line)) {
  fcntl(line_.get(), F_SETFL, fcntl(line_.get(), F_GETFL) | O_NONBLOCK);
}

void ContainerClient::Send(Message request, OnReply reply) {
  const int64_t id = next_id_++;
  waiting_.emplace(id, std::move(reply));
  outgoing_ += ipc::WriteJson(request.Set(kCallId, id)) + "\n";
}

short ContainerClient::Events() const {
  return static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT));
}

bool ContainerClient::Move() {
  while (!ended_ && !outgoing_.empty()) {
    const ssize_t n = send(line_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      ended_ = true;
    } else {
      outgoing_.erase(0, static_cast<size_t>(n));
    }
  }
  // Replies may lie there although the server has ended.
  if (!ReadReplies()) ended_ = true;
  if (ended_) FailAll();
  return !ended_;
}

bool ContainerClient::ReadReplies() {
  char chunk[65536];
  while (true) {
    const ssize_t n = read(line_.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    incoming_.append(chunk, static_cast<size_t>(n));
    std::string line;
    while (TakeLine(incoming_, line)) HandleLine(line);
    if (incoming_.size() > 2 * kLargestCall) return false;
  }
}

void ContainerClient::HandleLine(std::string_view line) {
  const Result<Message> reply = ipc::ReadJson(line);
  const auto id = reply.ok() ? reply->FindNumber(kCallId) : std::nullopt;
  const auto found = id ? waiting_.find(*id) : waiting_.end();
  if (found == waiting_.end()) return;
  const OnReply call = std::move(found->second);
  waiting_.erase(found);
  Message without_id;
  for (const auto& [name, value] : reply->fields()) {
    if (name == kCallId) continue;
    std::visit([&, &field = name](const auto& content) { without_id.Set(field, content); }, value);
  }
  call(std::move(without_id));
}

void ContainerClient::FailAll() {
  outgoing_.clear();
  const std::map<int64_t, OnReply> failed = std::exchange(waiting_, {});
  for (const auto& [id, call] : failed) {
    call(MakeError("UNAVAILABLE", "the containers of the guest have no server any more"));
  }
}

}  // namespace berth::guest
