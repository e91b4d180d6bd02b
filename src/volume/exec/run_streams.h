// Reads the output of a run in a pod while it is written: each stream is a FIFO in the run's
// folder.
//
// The runtime's own way is not used, because it puts the output into one message with the exit
// code, refuses to send more than 16 MiB (containerd's max_send_message_size), and waits for all
// processes that inherited the streams. Through a FIFO a program may write without limit, and
// processes that it leaves behind do not delay the end of the run.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/processes/error_lines.h"
#include "platform/processes/exec.h"
#include "volume/exec/run_folders.h"

namespace berth::volume {

class RunStreams {
 public:
  // Makes "out" and "err" in `folder` and reads them from now on. It keeps the first `max_output`
  // bytes of each. Lines of "err" go to the calling thread's listener (error_lines.h).
  static base::StatusOr<std::unique_ptr<RunStreams>> Open(const RunFolder& folder,
                                                          size_t max_output);
  ~RunStreams();

  // Call it once, when the program has ended: puts its output into `result`. It does not wait for
  // other processes that still hold the streams open.
  void FinishReading(platform::CommandResult& result);

 private:
  RunStreams(base::UniqueFd out, base::UniqueFd err, base::UniqueFd end, size_t max_output);
  void ReadAll();

  const base::UniqueFd out_, err_;
  const base::UniqueFd end_;  // an eventfd: readable once the program has ended
  const size_t max_output_;
  // Used by the thread until it is joined.
  std::string out_text_, err_text_;
  platform::LinePasser lines_;
  std::jthread thread_;
};

}  // namespace berth::volume
