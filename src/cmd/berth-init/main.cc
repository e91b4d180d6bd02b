// `berth-init`: process 1 of a mount pod.

#include <stdlib.h>
#include <unistd.h>

#include "cmd/berth-init/init.h"
#include "cmd/berth-init/log_line.h"
#include "cmd/berth-init/options.h"

int main(int argc, char** argv) {
  using namespace berth::init;  // NOLINT(google-build-using-namespace)
  const auto options = ParseOptions({argv + (argc > 0 ? 1 : 0), argv + argc},
                                    [](const char* name) -> const char* { return getenv(name); });
  if (!options.ok()) {
    LogLine(options.failure().text);
    return 2;
  }
  if (options->help) {
    const ssize_t written = write(STDOUT_FILENO, kUsage.data(), kUsage.size());
    return written < 0 ? 1 : 0;
  }
  // berth-init must be process 1, because otherwise the orphaned daemons of its container would not
  // become its children, and its signals at the end would reach processes of others.
  if (getpid() != 1) {
    LogLine(
        "must be process 1 of its container: set neither hostPID nor shareProcessNamespace in the "
        "pod");
    return 2;
  }
  return Init(*options).Run();
}
