#include "base/ipc/guest_stream.h"

namespace berth::base::ipc {

namespace {

constexpr std::string_view kFrameMagic = "BGS1";

void AppendNumber(std::string& bytes, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((number >> shift) & 0xff);
}

uint32_t ReadNumber(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 4; i-- > 0;) number = (number << 8) | static_cast<unsigned char>(bytes[i]);
  return number;
}

// How many numbers a frame of this type has as its payload.
size_t CountNumbers(FrameType type) {
  switch (type) {
    case FrameType::kCredit:
      return 1;
    case FrameType::kResize:
    case FrameType::kSignal:
    case FrameType::kExit:
      return 2;
    case FrameType::kHello:
    case FrameType::kData:
    case FrameType::kEof:
    case FrameType::kClosed:
      return 0;
  }
  return 0;
}

bool HasChannel(FrameType type) {
  return type == FrameType::kData || type == FrameType::kEof || type == FrameType::kClosed ||
         type == FrameType::kCredit;
}

bool FitsLength(FrameType type, size_t length) {
  if (type == FrameType::kHello) return length > 0 && length <= kLongestName;
  if (type == FrameType::kData) return length > 0 && length <= kLargestPayload;
  return length == 4 * CountNumbers(type);
}

Failure BrokenStream(std::string_view what) {
  return {Problem::kBroken, "the stream of a guest's process has " + std::string(what), ""};
}

}  // namespace

std::string FrameWriter::Write(const StreamFrame& frame) {
  const size_t numbers = CountNumbers(frame.type);
  std::string bytes;
  bytes.reserve(kFrameHeader + frame.payload.size() + 4 * numbers);
  bytes += kFrameMagic;
  bytes += static_cast<char>(frame.type);
  bytes += static_cast<char>(frame.channel);
  bytes.append(2, '\0');
  AppendNumber(bytes, static_cast<uint32_t>(numbers > 0 ? 4 * numbers : frame.payload.size()));
  AppendNumber(bytes, sequence_++);
  if (numbers > 0) AppendNumber(bytes, frame.first);
  if (numbers > 1) AppendNumber(bytes, frame.second);
  if (numbers == 0) bytes += frame.payload;
  return bytes;
}

Result<std::optional<StreamFrame>> FrameReader::Next() {
  const std::string_view rest = std::string_view(bytes_).substr(at_);
  if (!rest.substr(0, kFrameMagic.size()).starts_with(kFrameMagic.substr(0, rest.size()))) {
    return BrokenStream("a frame without its magic");
  }
  if (rest.size() < kFrameHeader) return std::optional<StreamFrame>();
  StreamFrame frame;
  frame.type = static_cast<FrameType>(rest[4]);
  if (frame.type < FrameType::kHello || frame.type > FrameType::kExit) {
    return BrokenStream("a frame of an unknown type");
  }
  frame.channel = static_cast<Channel>(rest[5]);
  if (static_cast<size_t>(frame.channel) >= kChannels || rest[6] != 0 || rest[7] != 0 ||
      (!HasChannel(frame.type) && frame.channel != Channel::kInput)) {
    return BrokenStream("a frame of an unknown channel");
  }
  if ((frame.type == FrameType::kHello) != (sequence_ == 0)) {
    return BrokenStream("a hello that is not its first frame, or a first frame that is no hello");
  }
  const size_t length = ReadNumber(rest.substr(8));
  if (!FitsLength(frame.type, length)) return BrokenStream("a frame of a wrong length");
  if (ReadNumber(rest.substr(12)) != sequence_) return BrokenStream("a frame out of sequence");
  if (rest.size() < kFrameHeader + length) return std::optional<StreamFrame>();
  const std::string_view payload = rest.substr(kFrameHeader, length);
  const size_t numbers = CountNumbers(frame.type);
  if (numbers > 0) frame.first = ReadNumber(payload);
  if (numbers > 1) frame.second = ReadNumber(payload.substr(4));
  if (numbers == 0) frame.payload = payload;
  ++sequence_;
  at_ += kFrameHeader + length;
  if (at_ == bytes_.size() || at_ > 4 * kLargestPayload) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  return std::optional(std::move(frame));
}

}  // namespace berth::base::ipc
