#include "volume/exec/run_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/processes/exec_parts.h"

namespace berth::volume {
namespace {

using platform::DrainPipe;

base::StatusOr<base::UniqueFd> OpenFifo(const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0) {
    return platform::ErrnoError(errno, fmt::format("make the stream '{}'", path));
  }
  base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return platform::ErrnoError(errno, fmt::format("open the stream '{}'", path));
  return fd;
}

}  // namespace

base::StatusOr<std::unique_ptr<RunStreams>> RunStreams::Open(const RunFolder& folder,
                                                             size_t max_output) {
  ASSIGN_OR_RETURN(base::UniqueFd out, OpenFifo(folder.PathOf("out")));
  ASSIGN_OR_RETURN(base::UniqueFd err, OpenFifo(folder.PathOf("err")));
  base::UniqueFd end(eventfd(0, EFD_CLOEXEC));
  if (!end.valid()) return platform::ErrnoError(errno, "make the eventfd that ends the reading");
  return std::unique_ptr<RunStreams>(
      new RunStreams(std::move(out), std::move(err), std::move(end), max_output));
}

RunStreams::RunStreams(base::UniqueFd out, base::UniqueFd err, base::UniqueFd end,
                       size_t max_output)
    : out_(std::move(out)),
      err_(std::move(err)),
      end_(std::move(end)),
      max_output_(max_output),
      thread_([this] { ReadAll(); }) {}

RunStreams::~RunStreams() {
  if (thread_.joinable()) eventfd_write(end_.get(), 1);
}

void RunStreams::ReadAll() {
  // Once all writers have closed a FIFO, poll reports POLLHUP at every call, so the FIFO is taken
  // out of the list. The program opens the FIFO once and its children inherit that open file, so no
  // writer can come later.
  std::array<pollfd, 3> fds = {{{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                {.fd = out_.get(), .events = POLLIN, .revents = 0},
                                {.fd = err_.get(), .events = POLLIN, .revents = 0}}};
  while (fds[0].revents == 0) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
      LOG_WARNING("the output of a utility is read no further: {}",
                  base::ToString(platform::ErrnoError(errno, "poll")));
      break;
    }
    if (fds[1].revents != 0) DrainPipe(out_.get(), out_text_, max_output_);
    if (fds[2].revents != 0) {
      DrainPipe(err_.get(), err_text_, max_output_);
      lines_.PassLines(err_text_);
    }
    for (size_t i : {1, 2}) {
      if ((fds[i].revents & POLLHUP) != 0) fds[i].fd = -1;
    }
  }
  DrainPipe(out_.get(), out_text_, max_output_);
  DrainPipe(err_.get(), err_text_, max_output_);
  lines_.PassLines(err_text_);
}

void RunStreams::FinishReading(platform::CommandResult& result) {
  eventfd_write(end_.get(), 1);
  thread_.join();
  result.out = std::move(out_text_);
  result.err = std::move(err_text_);
}

}  // namespace berth::volume
