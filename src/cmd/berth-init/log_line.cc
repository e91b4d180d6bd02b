#include "cmd/berth-init/log_line.h"

#include <unistd.h>

#include <string>

namespace berth::init {

void LogLine(std::string_view text) {
  std::string line = "berth-init: ";
  // Control characters are replaced, so that a text from outside cannot forge a line.
  for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  line += '\n';
  // A failed write is ignored, because berth-init must continue to serve.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace berth::init
