#include "guest/control.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace berth::guest {

using base::ipc::Message;
namespace calls = base::ipc::guest;

namespace {

// Replies that nobody reads are dropped beyond this size.
constexpr size_t kLargestBacklog = 4 * calls::kLargestLine;

}  // namespace

Message ErrorReply(std::string_view code, std::string text) {
  return Message()
      .Set(base::ipc::kError, std::move(text))
      .Set(base::ipc::kErrorCode, std::string(code));
}

Control::Control(Loop& loop, base::UniqueFd port) : loop_(loop), port_(std::move(port)) {
  const int flags = fcntl(port_.get(), F_GETFL);
  // The kernel sends SIGIO when the other side connects.
  fcntl(port_.get(), F_SETOWN, getpid());
  fcntl(port_.get(), F_SETFL, flags | O_NONBLOCK | O_ASYNC);
  loop_.OnSigIo([this] { WatchPort(); });
  WatchPort();
}

void Control::WatchPort() {
  const short events = out_.empty() ? POLLIN : POLLIN | POLLOUT;
  loop_.Watch(port_.get(), events, [this](short found) { HandleEvents(found); });
}

void Control::HandleEvents(short events) {
  if ((events & POLLIN) != 0) {
    char buffer[16 * 1024];
    const ssize_t size = read(port_.get(), buffer, sizeof buffer);
    if (size > 0) {
      reader_.AddBytes({buffer, static_cast<size_t>(size)});
      while (const auto line = reader_.TakeLine()) HandleLine(*line);
      return;
    }
  }
  if ((events & POLLHUP) != 0) {
    // The port reports the hang-up until the handler connects again, so it is not watched before
    // SIGIO comes.
    out_.clear();
    loop_.Unwatch(port_.get());
    return;
  }
  if ((events & POLLOUT) != 0) WriteOut();
}

void Control::HandleLine(const std::string& line) {
  const auto request = base::ipc::ReadJson(line);
  if (!request.ok()) return;
  const std::string* id = request->FindText(calls::kId);
  const std::string* name = request->FindText(base::ipc::kMethod);
  if (id == nullptr || name == nullptr) return;
  const auto method = methods_.find(*name);
  if (method == methods_.end()) {
    Send(*id, ErrorReply("UNIMPLEMENTED", "the guest has no method '" + *name + "'"));
    return;
  }
  method->second(*request, [this, id = *id](Message reply) { Send(id, std::move(reply)); });
}

void Control::Send(const std::string& id, Message reply) {
  if (out_.size() > kLargestBacklog) out_.clear();
  out_ += "\n" + base::ipc::WriteJson(reply.Set(calls::kId, id)) + "\n";
  WriteOut();
}

void Control::WriteOut() {
  while (!out_.empty()) {
    const ssize_t size = write(port_.get(), out_.data(), out_.size());
    if (size > 0) {
      out_.erase(0, static_cast<size_t>(size));
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else {
      break;
    }
  }
  WatchPort();
}

}  // namespace berth::guest
