// Shows the lines that a program prints to standard error while it still runs, such as its
// progress. The caller of an Exec may be far above it, with other Execs between.
#pragma once

#include <string_view>

#include "base/workers/thread_listener.h"

namespace berth::platform {

// As long as the object lives, each whole line that a program prints which this thread runs by an
// Exec is passed to it, without its end. That happens on any thread, one line at a time, and never
// after Run has returned. Lines beyond Command::max_output are not passed, nor those of a program
// in a pod that leaves a daemon.
using ErrorLines = base::ThreadListener<struct ErrorLinesTag, std::string_view>;

// For implementations of Exec: finds the lines in the text that a stream has given so far. Made on
// the thread that called Run.
class LinePasser {
 public:
  LinePasser() : on_line_(ErrorLines::current()) {}

  // Passes on the whole lines that `text` has more than at the last call.
  void PassLines(std::string_view text);

 private:
  const ErrorLines::Report* const on_line_;
  size_t passed_ = 0;
};

}  // namespace berth::platform
