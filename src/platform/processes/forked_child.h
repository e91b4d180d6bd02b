// Runs a function in a forked copy of this process with a deadline, for libraries that allocate
// memory and may block for ever in the kernel, such as a probe of a device that no longer answers.
//
// A child of child.h costs less, but shares this process's memory and so may not allocate. Here the
// C library makes the allocator usable in the child. Any other lock may be held by a thread that
// the child does not have, so the function must not log, nor use anything that another thread uses.
// What is asked often is cheaper with ForkedWorkers (forked_workers.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace berth::platform {

// `body` returns 0 or an errno, which becomes the error, and fills in `reply`, which this function
// copies from the child after 0. All descriptors are closed in the child. DEADLINE_EXCEEDED: the
// child did not answer in time, and was sent SIGKILL; a later call reaps it when the kernel has let
// it go. INTERNAL: the child died. Messages begin with `what`.
base::Status RunInForkedChild(std::string_view what, std::chrono::milliseconds timeout,
                              std::span<std::byte> reply, const std::function<int()>& body);

// As above, for a body that fills in an answer, which is value-initialised before.
template <typename Answer>
base::StatusOr<Answer> AskForkedChild(
    std::string_view what, std::chrono::milliseconds timeout,
    const std::type_identity_t<std::function<int(Answer&)>>& body) {
  static_assert(std::is_trivially_copyable_v<Answer>);
  Answer answer{};
  RETURN_IF_ERROR(RunInForkedChild(what, timeout, std::as_writable_bytes(std::span(&answer, 1)),
                                   [&] { return body(answer); }));
  return answer;
}

}  // namespace berth::platform
