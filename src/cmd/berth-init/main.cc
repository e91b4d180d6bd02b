// `berth-init`: process 1 of a mount pod.

#include <stdlib.h>
#include <unistd.h>

#include "cmd/berth-init/init.h"
#include "cmd/berth-init/options.h"
#include "cmd/berth-init/say.h"

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
  // Its daemons would not come to it, and others' processes would.
  if (getpid() != 1) {
    LogLine("is to be process 1 of its container: without hostPID and shareProcessNamespace");
    return 2;
  }
  return Init(*options).Run();
}
