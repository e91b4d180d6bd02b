// Splits a stream of bytes into the lines of base/ipc/guest_call.h. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace berth::base::ipc {

class LineReader {
 public:
  explicit LineReader(size_t longest) : longest_(longest) {}

  // Adds received bytes. A line that grows beyond the bound is skipped as a whole, so that a peer
  // costs no more memory than that.
  void AddBytes(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        if (!skipping_ && !open_.empty()) lines_ += open_ + '\n';
        open_.clear();
        skipping_ = false;
      } else if (open_.size() >= longest_) {
        open_.clear();
        skipping_ = true;
      } else if (!skipping_) {
        open_ += c;
      }
    }
  }
  // Removes and returns the next whole line; nullopt: there is none yet. Empty lines are skipped.
  std::optional<std::string> TakeLine() {
    const size_t end = lines_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = lines_.substr(0, end);
    lines_.erase(0, end + 1);
    return line;
  }

 private:
  size_t longest_;
  bool skipping_ = false;
  std::string open_;   // the line that has not ended yet
  std::string lines_;  // whole lines, each with its end
};

}  // namespace berth::base::ipc
