#include "platform/processes/error_lines.h"

#include <utility>

namespace berth::platform {
namespace {

thread_local const ErrorLines* innermost = nullptr;

}  // namespace

ErrorLines::ErrorLines(OnLine on_line) : on_line_(std::move(on_line)), outer_(innermost) {
  innermost = this;
}

ErrorLines::~ErrorLines() { innermost = outer_; }

const ErrorLines::OnLine* ErrorLines::current() {
  return innermost == nullptr ? nullptr : &innermost->on_line_;
}

void LinePasser::Pass(std::string_view text) {
  if (on_line_ == nullptr) return;
  for (size_t end = text.find('\n', passed_); end != std::string_view::npos;
       end = text.find('\n', passed_)) {
    (*on_line_)(text.substr(passed_, end - passed_));
    passed_ = end + 1;
  }
}

}  // namespace berth::platform
