// A process of a container, in the guest: its stream to the stand-in on the host, its signals and
// its end. One thread serves it:
//
//   created --hello of the stand-in--> served --process ends--> ended --all output taken--> closed
//      |                                 |                                                   ^
//      +--no hello in time---------------+--the line ends or breaks the rules: SIGKILL ------+
//
// The stand-in is for containerd what the process is. So if the stand-in is gone, the process is
// killed: nobody could see its end, and the pod's next container would run beside it.
//
// The process must be a child of this process, or become one (PR_SET_CHILD_SUBREAPER), and nobody
// else may wait for it. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/ipc/connection.h"
#include "base/ipc/stream_peer.h"
#include "base/unique_fd.h"

namespace berth::guest {

struct ProcessEnd {
  int code = 0;
  int signal = 0;
};

class GuestProcess {
 public:
  struct Options {
    std::string name;  // in the hello of both sides
    pid_t pid = -1;
    base::UniqueFd line;
    bool is_port = false;
    // The other ends of the process's standard descriptors, or its terminal's master.
    base::UniqueFd input, output, errors, terminal;
    std::chrono::milliseconds hello_time{60'000};
    // Sends a signal to all processes of the container.
    std::function<void(int signal)> signal_all;
  };

  explicit GuestProcess(Options options);
  // Kills the process, and waits for its end.
  ~GuestProcess();

  pid_t pid() const { return pid_; }
  // kRefused: the process has ended.
  base::ipc::Failure Signal(int signal) const;
  // nullopt: it runs.
  std::optional<ProcessEnd> FindEnd() const;
  // False: it has not ended before the deadline.
  bool WaitForEnd(base::ipc::Deadline deadline) const;
  // Whether its thread has nothing more to do: the process and its stream have ended.
  bool IsClosed() const;

 private:
  void Serve();
  void HandleControls();
  // Notes the end of the process if it has ended.
  void CollectEnd();
  // Tells the stand-in of the end, as soon as it has all output or cannot take it now.
  base::ipc::Failure TellEnd();
  // Moves what there is on the stream. A failure: the stream has ended, or no hello came in time.
  base::ipc::Failure MoveStream(std::span<const pollfd> polled, base::ipc::Deadline hello_deadline);
  // How long poll(2) may wait for the stream, in milliseconds; -1: for ever.
  int FindWait(bool pauses, base::ipc::Deadline hello_deadline) const;

  const std::string name_;
  const pid_t pid_;
  const bool has_terminal_;
  const std::chrono::milliseconds hello_time_;
  const std::function<void(int)> signal_all_;
  base::UniqueFd process_;  // a pidfd
  base::UniqueFd stop_;     // an eventfd
  // Used by the thread alone.
  std::optional<base::ipc::StreamPeer> peer_;
  base::UniqueFd terminal_;
  bool told_end_ = false;
  std::optional<base::ipc::Deadline> terminal_deadline_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<ProcessEnd> end_;
  bool closed_ = false;
  bool stopping_ = false;

  std::jthread thread_;  // the last member, because it uses the others
};

}  // namespace berth::guest
