#include "cli/objects/exec.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <optional>

#include "cli/output.h"
#include "kube/exec_session.h"

namespace berth::cli {
namespace {

// Keeps the terminal in raw mode while the object lives, so that every key, Ctrl-C too, goes to the
// container.
class RawTerminal {
 public:
  RawTerminal() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawTerminal() { tcsetattr(STDIN_FILENO, TCSANOW, &before_); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_ = {};
};

std::pair<int, int> TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

}  // namespace

StatusOr<int> ExecInContainer(const kube::Config& config, const ApiOptions& api,
                              const ExecOptions& options, std::stop_token stop) {
  if (options.command.empty()) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "exec: no command is given; write it after '--'");
  }
  const bool tty = options.tty && isatty(STDIN_FILENO) != 0;
  if (options.tty && !tty) PrintError("-t is ignored, because standard input is not a terminal\n");
  kube::ExecStreams streams;
  streams.stdin_fd = options.interactive ? STDIN_FILENO : -1;
  streams.on_stdout = Print;
  streams.on_stderr = PrintError;
  streams.terminal_size = TerminalSize;
  streams.on_stdin_end_lost = [] {
    PrintError(
        "the command does not see that standard input has ended, because the server cannot pass "
        "this on; if the command waits for more input, end it with Ctrl-C\n");
  };
  std::optional<RawTerminal> raw;
  if (tty && options.interactive) raw.emplace();
  return kube::ExecInPod(config,
                         {.ns = api.ns,
                          .pod = options.pod,
                          .container = options.container,
                          .command = options.command,
                          .tty = tty},
                         streams, stop);
}

}  // namespace berth::cli
