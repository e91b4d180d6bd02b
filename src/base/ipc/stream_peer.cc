#include "base/ipc/stream_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace berth::base::ipc {

namespace {

constexpr size_t kMostControls = 64;
constexpr int kMostReads = 16;
constexpr Channel kAllChannels[] = {Channel::kInput, Channel::kOutput, Channel::kErrors};

bool IsNotReady(int error) { return error == EAGAIN || error == EINTR; }

Failure LineEnded() { return {Problem::kClosed, "the stream of a guest's process has ended", ""}; }

void SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

}  // namespace

UniqueFd MakeNonBlocking(UniqueFd fd, bool to_read) {
  struct stat st{};
  // A regular file is not opened again, because its position and O_APPEND would be lost.
  if (fstat(fd.get(), &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
    const int access = to_read ? O_RDONLY : O_WRONLY;
    UniqueFd own(open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own.valid()) return own;
  }
  SetNonBlocking(fd.get());
  return fd;
}

StreamPeer::StreamPeer(Options options)
    : line_(std::move(options.line)), name_(std::move(options.name)), is_port_(options.is_port) {
  SetNonBlocking(line_.get());
  Send({.type = FrameType::kHello, .payload = name_});
}

void StreamPeer::AddSource(Channel channel, UniqueFd fd) {
  SetNonBlocking(fd.get());
  SourceOf(channel).fd = std::move(fd);
}

void StreamPeer::AddSink(Channel channel, UniqueFd fd) {
  SetNonBlocking(fd.get());
  SinkOf(channel).fd = std::move(fd);
}

void StreamPeer::Send(const StreamFrame& frame) { outgoing_ += writer_.Write(frame); }

void StreamPeer::SendControl(StreamFrame frame) {
  if (Backlog() < kLargestBacklog) Send(frame);
}

void StreamPeer::SendResize(uint32_t rows, uint32_t columns) {
  SendControl({.type = FrameType::kResize, .payload = {}, .first = rows, .second = columns});
}

void StreamPeer::SendSignal(uint32_t number, bool to_all) {
  SendControl({.type = FrameType::kSignal,
               .payload = {},
               .first = number,
               .second = static_cast<uint32_t>(to_all)});
}

void StreamPeer::SendExit(uint32_t code, uint32_t signal) {
  Send({.type = FrameType::kExit, .payload = {}, .first = code, .second = signal});
}

std::optional<StreamFrame> StreamPeer::NextControl() {
  if (controls_.empty()) return std::nullopt;
  StreamFrame frame = std::move(controls_.front());
  controls_.pop_front();
  return frame;
}

bool StreamPeer::HasSources() const {
  return std::ranges::any_of(sources_, [](const Source& source) { return source.fd.valid(); });
}

bool StreamPeer::HasSentAll() const { return !HasSources() && Backlog() == 0; }

bool StreamPeer::IsHeldUp() const {
  return std::ranges::any_of(
      sources_, [](const Source& source) { return source.fd.valid() && source.credit == 0; });
}

bool StreamPeer::HasDeliveredAll() const {
  return std::ranges::none_of(sinks_, [](const Sink& sink) { return sink.fd.valid(); });
}

void StreamPeer::CloseSources() {
  for (const Channel channel : kAllChannels) {
    if (SourceOf(channel).fd.valid()) EndSource(channel);
  }
}

// Data waits for the other side's hello, so that it goes to nobody else.
bool StreamPeer::IsWanted(const Source& source) const {
  return failed_.ok() && source.fd.valid() && greeted_ && source.credit > 0 &&
         Backlog() < kLargestPayload;
}

bool StreamPeer::AddPolled(std::vector<pollfd>& polled) {
  const bool pauses = is_port_ && !greeted_;
  const short line_events = static_cast<short>(POLLIN | (Backlog() > 0 ? POLLOUT : 0));
  const int line = pauses || !failed_.ok() ? -1 : line_.get();
  polled.push_back({.fd = line, .events = line_events, .revents = 0});
  for (const Source& source : sources_) {
    const int fd = IsWanted(source) ? source.fd.get() : -1;
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  for (const Sink& sink : sinks_) {
    // Also an idle sink is polled, because POLLERR shows that its reader has gone.
    const short events = sink.bytes.size() > sink.written ? POLLOUT : 0;
    polled.push_back({.fd = sink.fd.valid() ? sink.fd.get() : -1, .events = events, .revents = 0});
  }
  return pauses;
}

Failure StreamPeer::Move(std::span<const pollfd> polled) {
  // A line that has ended may still have the other side's last frames, which go to the sinks.
  if (failed_.ok()) failed_ = ReadLine();
  if (!failed_.ok()) {
    for (Sink& sink : sinks_) sink.ended = true;
  }
  for (size_t i = 0; i < kChannels; ++i) {
    const size_t entry = 1 + kChannels + i;
    const bool gone = entry < polled.size() && sinks_[i].fd.valid() &&
                      polled[entry].fd == sinks_[i].fd.get() &&
                      (polled[entry].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    if (gone) CloseSink(kAllChannels[i]);
    WriteSink(kAllChannels[i]);
  }
  for (const Channel channel : kAllChannels) {
    if (failed_.ok()) ReadSource(channel);
  }
  if (failed_.ok()) failed_ = WriteLine();
  return failed_;
}

void StreamPeer::ReadSource(Channel channel) {
  Source& source = SourceOf(channel);
  char bytes[kLargestPayload];
  while (IsWanted(source)) {
    const ssize_t n = read(source.fd.get(), bytes, std::min(source.credit, sizeof(bytes)));
    if (n > 0) {
      source.credit -= static_cast<size_t>(n);
      Send({.type = FrameType::kData,
            .channel = channel,
            .payload = std::string(bytes, static_cast<size_t>(n))});
      failed_ = WriteLine();
      if (!failed_.ok()) return;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !close_when_empty_) return;
    EndSource(channel);  // also EIO, which a terminal gives when the other side has closed it
  }
}

void StreamPeer::EndSource(Channel channel) {
  SourceOf(channel).fd.Reset();
  Send({.type = FrameType::kEof, .channel = channel, .payload = {}});
}

void StreamPeer::WriteSink(Channel channel) {
  Sink& sink = SinkOf(channel);
  while (sink.fd.valid() && sink.written < sink.bytes.size()) {
    const ssize_t n = write(sink.fd.get(), sink.bytes.data() + sink.written,
                            std::min<size_t>(sink.bytes.size() - sink.written, 4096));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      CloseSink(channel);
      return;
    }
    sink.written += static_cast<size_t>(n);
    sink.ungranted += static_cast<size_t>(n);
  }
  const bool empty = sink.written == sink.bytes.size();
  if (empty || sink.written > kWindow / 4) {
    sink.bytes.erase(0, sink.written);
    sink.written = 0;
  }
  // A peer that does not read its credit gets no more, so that the line's backlog has a bound.
  if (sink.ungranted > 0 && (empty || sink.ungranted >= kWindow / 4) &&
      Backlog() < kLargestBacklog) {
    Grant(channel, std::exchange(sink.ungranted, 0));
  }
  if (empty && sink.ended) sink.fd.Reset();
}

void StreamPeer::CloseSink(Channel channel) {
  Sink& sink = SinkOf(channel);
  if (!sink.fd.valid()) return;
  sink = Sink();
  Send({.type = FrameType::kClosed, .channel = channel, .payload = {}});
}

void StreamPeer::Grant(Channel channel, size_t bytes) {
  Send({.type = FrameType::kCredit,
        .channel = channel,
        .payload = {},
        .first = static_cast<uint32_t>(bytes)});
}

Failure StreamPeer::ReadLine() {
  char bytes[kFrameHeader + kLargestPayload];
  // The other side must not keep this one from its sinks by frames without end.
  for (int round = 0; round < kMostReads; ++round) {
    const ssize_t n = read(line_.get(), bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Ok();
    if (n <= 0) return is_port_ && !greeted_ ? Ok() : LineEnded();
    reader_.Append({bytes, static_cast<size_t>(n)});
    while (true) {
      Result<std::optional<StreamFrame>> frame = reader_.Next();
      if (!frame.ok()) return frame.failure();
      if (!frame->has_value()) break;
      if (Failure handled = HandleFrame(std::move(**frame)); !handled.ok()) return handled;
    }
  }
  return Ok();
}

Failure StreamPeer::WriteLine() {
  // Nothing is written to a port without a reader, because it would wait there for another one.
  if (is_port_ && !greeted_) return Ok();
  while (Backlog() > 0) {
    const ssize_t n = write(line_.get(), outgoing_.data() + sent_, Backlog());
    if (n < 0 && IsNotReady(errno)) break;
    if (n <= 0) return LineEnded();
    sent_ += static_cast<size_t>(n);
  }
  if (Backlog() == 0 || sent_ > kLargestBacklog) {
    outgoing_.erase(0, sent_);
    sent_ = 0;
  }
  return Ok();
}

Failure StreamPeer::HandleFrame(StreamFrame frame) {
  switch (frame.type) {
    case FrameType::kHello:
      if (frame.payload != name_) {
        return {Problem::kBroken, "the stream of '" + name_ + "' leads to another process", ""};
      }
      greeted_ = true;
      return Ok();
    case FrameType::kData:
      return TakeData(frame);
    case FrameType::kEof:
      SinkOf(frame.channel).ended = true;
      return Ok();
    case FrameType::kClosed:
      if (SourceOf(frame.channel).fd.valid()) EndSource(frame.channel);
      return Ok();
    case FrameType::kCredit: {
      Source& source = SourceOf(frame.channel);
      source.credit += frame.first;
      if (source.credit <= kWindow) return Ok();
      return {Problem::kBroken, "the stream of '" + name_ + "' has more credit than bytes", ""};
    }
    case FrameType::kResize:
    case FrameType::kSignal:
    case FrameType::kExit:
      if (controls_.size() < kMostControls) controls_.push_back(std::move(frame));
      return Ok();
  }
  return Ok();
}

Failure StreamPeer::TakeData(const StreamFrame& frame) {
  Sink& sink = SinkOf(frame.channel);
  if (sink.bytes.size() - sink.written + sink.ungranted + frame.payload.size() > kWindow) {
    return {Problem::kBroken, "the stream of '" + name_ + "' has more bytes than credit", ""};
  }
  if (sink.fd.valid()) {
    sink.bytes += frame.payload;
  } else {  // nobody reads it, so it is lost as in a pipe without a reader
    sink.ungranted += frame.payload.size();
  }
  return Ok();
}

}  // namespace berth::base::ipc
