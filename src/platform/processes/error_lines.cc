#include "platform/processes/error_lines.h"

namespace berth::platform {

void LinePasser::PassLines(std::string_view text) {
  if (on_line_ == nullptr) return;
  for (size_t end = text.find('\n', passed_); end != std::string_view::npos;
       end = text.find('\n', passed_)) {
    (*on_line_)(text.substr(passed_, end - passed_));
    passed_ = end + 1;
  }
}

}  // namespace berth::platform
