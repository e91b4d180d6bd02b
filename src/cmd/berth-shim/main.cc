// `berth-shim`, installed under the names of mount utilities.

#include <stdlib.h>
#include <unistd.h>

#include "base/ipc/utility_call.h"
#include "cmd/berth-shim/shim.h"

int main(int argc, char** argv) {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  const char* folder = getenv("BERTH_SHIMS");
  return berth::shim::RunShim({argv, argv + argc}, environment,
                              folder != nullptr ? folder : berth::base::ipc::utility::kShimFolder);
}
