#include "crust/machine/guest_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "platform/errno.h"

namespace berth::crust {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::ipc::Message;
using std::chrono::steady_clock;
namespace calls = base::ipc::guest;

namespace {

constexpr std::chrono::milliseconds kWatchInterval(200);
constexpr size_t kLongestText = 1024;

Status Ended() { return Error(StatusCode::kUnavailable, "the virtual machine has ended"); }

Status ErrorOf(const Message& reply) {
  const std::string* text = reply.FindText(base::ipc::kError);
  if (text == nullptr) return base::OkStatus();
  const std::string* name = reply.FindText(base::ipc::kErrorCode);
  StatusCode code = name == nullptr ? StatusCode::kInternal : base::ParseCodeName(*name);
  if (code == StatusCode::kOk || code == StatusCode::kUnknown) code = StatusCode::kInternal;
  return Error(code, "the guest answers {}", Quote(text->substr(0, kLongestText)));
}

}  // namespace

Status GuestClient::Connect() {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) {
    return Error(StatusCode::kInvalidArgument, "the path {} is too long for a socket",
                 Quote(socket_path_));
  }
  socket_path_.copy(address.sun_path, sizeof address.sun_path - 1);
  base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN) return Ended();
    return platform::ErrnoError(errno, "connect to the guest");
  }
  socket_ = std::move(fd);
  reader_ = base::ipc::LineReader(calls::kLargestLine);
  return base::OkStatus();
}

Status GuestClient::WaitFor(short events, Deadline deadline, const Watch& watch) const {
  while (true) {
    const auto now = steady_clock::now();
    if (now >= deadline) return Error(StatusCode::kDeadlineExceeded, "the guest does not answer");
    auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
    wait = std::min(wait, kWatchInterval);
    pollfd ready = {socket_.get(), events, 0};
    const int polled = poll(&ready, 1, static_cast<int>(wait.count()));
    if (polled > 0) return base::OkStatus();
    if (polled < 0 && errno != EINTR) return platform::ErrnoError(errno, "wait for the guest");
    if (polled == 0 && watch) RETURN_IF_ERROR(watch());
  }
}

Status GuestClient::SendAll(const std::string& text, Deadline deadline, const Watch& watch) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t size = send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (size >= 0) {
      sent += static_cast<size_t>(size);
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(POLLOUT, deadline, watch));
    } else if (errno != EINTR) {
      return Ended();
    }
  }
  return base::OkStatus();
}

StatusOr<Message> GuestClient::Receive(const std::string& id, Deadline deadline,
                                       const Watch& watch) {
  std::array<char, 16 * 1024> buffer;
  while (true) {
    while (const auto line = reader_.TakeLine()) {
      const auto reply = base::ipc::ReadJson(*line);
      if (!reply.ok()) continue;
      // Another id: the reply to a call that this or an earlier handler has given up.
      const std::string* of = reply->FindText(calls::kId);
      if (of == nullptr || *of != id) continue;
      RETURN_IF_ERROR(ErrorOf(*reply));
      return *reply;
    }
    RETURN_IF_ERROR(WaitFor(POLLIN, deadline, watch));
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) {
      socket_.Reset();
      return Ended();
    }
    reader_.AddBytes({buffer.data(), static_cast<size_t>(size)});
  }
}

StatusOr<Message> GuestClient::Call(Message request, Deadline deadline, const Watch& watch) {
  if (!socket_.valid()) RETURN_IF_ERROR(Connect());
  // No handler has given this id to a call before.
  const std::string id = base::NewUuid();
  request.Set(calls::kId, id);
  const Status sent = SendAll("\n" + base::ipc::WriteJson(request) + "\n", deadline, watch);
  if (!sent.ok()) {
    // A part may have been sent, and the next connection ends that line.
    socket_.Reset();
    return sent;
  }
  return Receive(id, deadline, watch);
}

}  // namespace berth::crust
