// The output of a run in a pod, read as it is written: each stream is a FIFO in the run's folder.
//
// What the runtime itself would collect it answers in one message, which it refuses to send beyond
// 16 MiB (containerd's max_send_message_size), the exit code with it; and it waits for whoever
// inherited the streams. Through a FIFO a program may write without end, and what is left of it
// keeps nobody waiting.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/processes/exec.h"
#include "volume/exec/run_folders.h"

namespace berth::volume {

class RunStreams {
 public:
  // Makes "out" and "err" in `folder` and reads them from now on, the first `max_output` bytes to
  // be kept of each.
  static base::StatusOr<std::unique_ptr<RunStreams>> Open(const RunFolder& folder,
                                                          size_t max_output);
  ~RunStreams();

  // The program has ended: puts what it wrote into `result`. What others still hold open is not
  // waited for. Once.
  void Finish(platform::CommandResult& result);

 private:
  RunStreams(base::UniqueFd out, base::UniqueFd err, base::UniqueFd end, size_t max_output);
  void ReadAll();

  const base::UniqueFd out_, err_;
  const base::UniqueFd end_;  // an eventfd: readable once the program has ended
  const size_t max_output_;
  std::string out_text_, err_text_;  // the thread's until it is joined
  std::jthread thread_;
};

}  // namespace berth::volume
