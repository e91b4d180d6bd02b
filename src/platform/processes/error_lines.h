// Shows the lines that a program prints to standard error while it still runs, such as its
// progress. The caller of an Exec may be far above it, with other Execs between, so the listener is
// found by the thread that calls, as a FlightScope is (base/flight.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace berth::platform {

// As long as the object lives, each whole line that a program prints which this thread runs by an
// Exec is passed to `on_line`, without its end. That happens on any thread, one line at a time, and
// never after Run has returned. Lines beyond Command::max_output are not passed, nor those of a
// program in a pod that leaves a daemon. The objects of a thread nest: the innermost one counts.
class ErrorLines {
 public:
  using OnLine = std::function<void(std::string_view line)>;

  explicit ErrorLines(OnLine on_line);
  ~ErrorLines();
  ErrorLines(const ErrorLines&) = delete;
  ErrorLines& operator=(const ErrorLines&) = delete;

  // The listener of this thread; null: there is none.
  static const OnLine* current();

 private:
  const OnLine on_line_;
  const ErrorLines* const outer_;
};

// For implementations of Exec: finds the lines in the text that a stream has given so far. Made on
// the thread that called Run.
class LinePasser {
 public:
  LinePasser() : on_line_(ErrorLines::current()) {}

  // Passes on the whole lines that `text` has more than at the last call.
  void Pass(std::string_view text);

 private:
  const ErrorLines::OnLine* const on_line_;
  size_t passed_ = 0;
};

}  // namespace berth::platform
