// The guest's kernel: its modules, and its log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace berth::guest {

// Loads the modules of a list (base/ipc/guest_call.h) in its order; those that are loaded already
// count as loaded. Returns "", or the error in words.
std::string LoadModules(const std::string& list);

// Follows the kernel's log (/dev/kmsg) from the moment at which it is made, or from the log's
// begin.
class KernelLog {
 public:
  enum class From { kNow, kBegin };
  explicit KernelLog(From from);
  // Returns the messages since then whose severity is "warning" or worse, and that contain
  // `about`, joined by "; "; at most `largest` bytes, the newest.
  std::string ReadProblems(std::string_view about, size_t largest = 512);

 private:
  base::UniqueFd log_;
};

}  // namespace berth::guest
