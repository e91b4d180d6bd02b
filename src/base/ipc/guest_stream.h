// The frames of the stream between a process in a guest (a container's, or one that was executed
// in a container) and its stand-in on the host. The stream is one line of bytes: a socket, or a
// port of virtio-serial in the guest, which is a socket on the host.
//
//   0      4     5        6     8       12        16
//   "BGS1" type  channel  zero  length  sequence  payload, `length` bytes
//
// Numbers are little-endian. `sequence` counts the sender's frames from 0.
//
//   hello   both   the name of the process. The first frame of each side, and only the first
//   data    both   bytes of a channel
//   eof     both   the channel has no more bytes
//   closed  both   nobody reads the channel any more, so its source may be closed
//   credit  both   u32: so many further bytes of the channel may be sent
//   resize  host   u32 rows, u32 columns: the new size of the terminal
//   signal  host   u32 number, u32 1: to all processes of the container
//   exit    guest  u32 exit code, u32 the signal that ended the process or 0
//
// Flow control: a sender has kWindow bytes of credit per channel, and gets more as the receiver
// hands bytes on. So a receiver never holds more than kWindow bytes per channel and always reads
// the line, and a reader that is slow or stands still delays no other channel and no control
// frame. Its sender stops reading the source, which holds up the process that writes there.
//
// A port has no end-of-file of its own: what a stand-in that died had sent in part may be followed
// by the frames of another. A wrong magic, a wrong sequence or a second hello is therefore the end
// of the session, and so is each frame that breaks these rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::base::ipc {

enum class FrameType : uint8_t {
  kHello = 1,
  kData,
  kEof,
  kClosed,
  kCredit,
  kResize,
  kSignal,
  kExit,
};

// Standard input goes to the guest, the other two to the host. A terminal has no kErrors.
enum class Channel : uint8_t { kInput, kOutput, kErrors };
inline constexpr size_t kChannels = 3;

inline constexpr size_t kFrameHeader = 16;
inline constexpr size_t kLargestPayload = 32 * 1024;
inline constexpr size_t kLongestName = 256;
inline constexpr size_t kWindow = 256 * 1024;

struct StreamFrame {
  FrameType type = FrameType::kData;
  Channel channel = Channel::kInput;  // of data, eof, closed and credit; else kInput
  std::string payload;                // of hello and data
  uint32_t first = 0;                 // the numbers of credit, resize, signal and exit
  uint32_t second = 0;
  bool operator==(const StreamFrame&) const = default;
};

// Makes the bytes of one side's frames. Not thread-safe.
class FrameWriter {
 public:
  // The frame must keep to the sizes above.
  std::string Write(const StreamFrame& frame);

 private:
  uint32_t sequence_ = 0;
};

// Parses the bytes of the other side. Not thread-safe.
class FrameReader {
 public:
  void Append(std::string_view bytes) { bytes_.append(bytes); }
  // The next frame, or nothing if it is not whole yet. kBroken: the bytes break the rules; the
  // reader cannot be used any more.
  Result<std::optional<StreamFrame>> Next();

 private:
  std::string bytes_;
  size_t at_ = 0;  // what lies before was parsed
  uint32_t sequence_ = 0;
};

}  // namespace berth::base::ipc
