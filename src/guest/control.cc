#include "guest/control.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "guest/files.h"

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

Message FailureReply(std::string_view what, int error, std::string_view kernel_says) {
  std::string text = Describe(what, error);
  if (!kernel_says.empty()) {
    text += ": the guest's kernel says '" + std::string(kernel_says) + "'";
  }
  switch (error) {
    case ENOENT:
    case ENODEV:
      return ErrorReply("NOT_FOUND", std::move(text));
    case EINVAL:
      return ErrorReply("INVALID_ARGUMENT", std::move(text));
    case EBUSY:
      return ErrorReply("FAILED_PRECONDITION", std::move(text));
    case ENOMEM:
    case ENOSPC:
      return ErrorReply("RESOURCE_EXHAUSTED", std::move(text));
    default:
      return ErrorReply("INTERNAL", std::move(text));
  }
}

std::string ReadText(const Message& request, std::string_view field) {
  const std::string* text = request.FindText(field);
  return text != nullptr ? *text : std::string();
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
  const Method* method = FindMethod(*name);
  if (method == nullptr) {
    Send(*id, ErrorReply("UNIMPLEMENTED", "the guest has no method '" + *name + "'"));
    return;
  }
  (*method)(*request, [this, id = *id](Message reply) { Send(id, std::move(reply)); });
}

const Method* Control::FindMethod(const std::string& name) const {
  if (const auto found = methods_.find(name); found != methods_.end()) return &found->second;
  for (const auto& [prefix, method] : groups_) {
    if (name.starts_with(prefix)) return &method;
  }
  return nullptr;
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
