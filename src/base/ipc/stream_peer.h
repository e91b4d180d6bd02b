// One side of a stream of frames (base/ipc/guest_stream.h): reads the sources of its channels into
// frames, and writes the frames of the other side to the sinks of theirs. Both sides use it: in the
// guest a process's output is a source, and on the host its input.
//
//   source -> frames -> line ~ ~ ~ line -> frames -> sink
//
// All descriptors are made non-blocking, and no call waits: the owner polls what AddPolled() names
// together with descriptors of its own, and then calls Move(). The owner's process must ignore
// SIGPIPE. Not thread-safe.
#pragma once

#include <poll.h>

#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ipc/guest_stream.h"
#include "base/unique_fd.h"

namespace berth::base::ipc {

class StreamPeer {
 public:
  struct Options {
    UniqueFd line;
    // The name of the process. The other side has to give the same in its hello.
    std::string name;
    // The line is a port of virtio-serial in the guest. Such a port has no reader until the
    // stand-in connects, so until the hello has come an end of the line means nothing.
    bool is_port = false;
  };
  explicit StreamPeer(Options options);

  // A source is read until its end. After CloseSourcesWhenEmpty() its end is also where it has no
  // more bytes at the moment.
  void AddSource(Channel channel, UniqueFd fd);
  void AddSink(Channel channel, UniqueFd fd);
  void CloseSourcesWhenEmpty() { close_when_empty_ = true; }

  // The frames are dropped if the line takes no more at the moment (kLargestBacklog).
  void SendResize(uint32_t rows, uint32_t columns);
  void SendSignal(uint32_t number, bool to_all);
  void SendExit(uint32_t code, uint32_t signal);

  // Appends what this side waits for. Returns whether Move() is also due after kPortPause, because
  // an unconnected port cannot be polled.
  bool AddPolled(std::vector<pollfd>& polled);
  // Moves what can be moved. `polled` has the entries that AddPolled() appended, after poll(2).
  // kClosed: the line has ended. kBroken: the other side broke the rules. Afterwards there is no
  // session any more, and each call fails in the same way; it still writes to the sinks what came
  // before.
  Failure Move(std::span<const pollfd> polled);

  // The next resize, signal or exit of the other side.
  std::optional<StreamFrame> NextControl();

  bool IsGreeted() const { return greeted_; }
  // Whether all sources have ended and their frames have left.
  bool HasSentAll() const;
  // Whether a source waits for credit, which is when the other side's reader is slow.
  bool IsHeldUp() const;
  bool HasSources() const;
  // Whether all sinks have got all bytes up to their end, or are closed.
  bool HasDeliveredAll() const;
  // Stops reading all sources and closes them, as if they had ended.
  void CloseSources();

  static constexpr int kPortPause = 20;  // milliseconds
  static constexpr size_t kLargestBacklog = 128 * 1024;

 private:
  struct Source {
    UniqueFd fd;
    size_t credit = kWindow;
  };
  struct Sink {
    UniqueFd fd;
    std::string bytes;
    size_t written = 0;    // of `bytes`
    size_t ungranted = 0;  // bytes handed on, for which no credit was given yet
    bool ended = false;
  };

  Source& SourceOf(Channel channel) { return sources_[static_cast<size_t>(channel)]; }
  Sink& SinkOf(Channel channel) { return sinks_[static_cast<size_t>(channel)]; }
  bool IsWanted(const Source& source) const;
  size_t Backlog() const { return outgoing_.size() - sent_; }
  void Send(const StreamFrame& frame);
  void SendControl(StreamFrame frame);
  void ReadSource(Channel channel);
  void EndSource(Channel channel);
  void WriteSink(Channel channel);
  void CloseSink(Channel channel);
  void Grant(Channel channel, size_t bytes);
  Failure ReadLine();
  Failure WriteLine();
  Failure HandleFrame(StreamFrame frame);
  Failure TakeData(const StreamFrame& frame);

  UniqueFd line_;
  const std::string name_;
  const bool is_port_;
  bool greeted_ = false;
  bool close_when_empty_ = false;
  Failure failed_;
  FrameWriter writer_;
  FrameReader reader_;
  std::array<Source, kChannels> sources_;
  std::array<Sink, kChannels> sinks_;
  std::string outgoing_;
  size_t sent_ = 0;  // of `outgoing_`
  std::deque<StreamFrame> controls_;
};

// Makes a descriptor non-blocking for this process alone if its file can be opened again (a pipe, a
// FIFO, a terminal), because others may share the file's status flags; else for all.
UniqueFd MakeNonBlocking(UniqueFd fd, bool to_read);

}  // namespace berth::base::ipc
