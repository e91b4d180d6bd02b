// Runs a function in a child process with a deadline, for system calls that can block for ever
// (mount, umount, stat of a dead file system), so that nothing hangs the agent.
//
// The child shares this process's memory, because copying the page tables of a process with many
// threads costs more than the rest of a mount (docs/adr/0019-children-share-memory.md).
// Descriptors, working folder, namespaces and signals are the child's own. A child that is stuck in
// the kernel outlives the call, and the kernel may still read its arguments and write its results:
// therefore a body owns everything that it touches, and captures by value only. For the same reason
// the child has only the descriptors that are given to it in `keeps`, with their numbers: with a
// copy of any other descriptor it would keep an unrelated lock held, connection open or volume
// busy.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// `body` may be killed at any moment, so it may use only async-signal-safe calls on data prepared
// before: raw system calls, no allocation, no locks. It has a stack of 256 KiB, and returns 0 or an
// errno, which becomes the error. DEADLINE_EXCEEDED: the child did not answer in time. It was sent
// SIGKILL, and a later call reaps it when the kernel has let it go; the outcome is unknown.
// INTERNAL: the child died. Messages begin with `what`.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::function<int()> body, std::vector<int> keeps = {});

// As above; after OK `reply`, which `body` owns, holds what the child wrote there.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::span<std::byte> reply, std::function<int()> body,
                        std::vector<int> keeps = {});

// As RunInChild, for a body that fills in an answer, which is value-initialised before.
template <typename Answer>
base::StatusOr<Answer> AskChild(std::string_view what, std::chrono::milliseconds timeout,
                                std::type_identity_t<std::function<int(Answer&)>> body,
                                std::vector<int> keeps = {});

// As AskChild, for `count` answers.
template <typename Answer>
base::StatusOr<std::vector<Answer>> AskChildForEach(
    std::string_view what, std::chrono::milliseconds timeout, size_t count,
    std::type_identity_t<std::function<int(std::span<Answer>)>> body, std::vector<int> keeps = {});

// As RunInChild, for a body that opens something, because a path can lead through a file system
// that no longer answers. The body returns a descriptor or a negative errno. The result holds the
// errno, or a descriptor of this process for the same file.
struct OpenedInChild {
  base::UniqueFd fd;
  int error = 0;  // an errno, if `fd` is not valid
};
base::StatusOr<OpenedInChild> OpenInChild(std::string_view what, std::chrono::milliseconds timeout,
                                          std::function<int()> body, std::vector<int> keeps = {});

// Closes all descriptors of the calling process except these. Async-signal-safe.
void CloseAllBut(std::span<const int> kept);

// Waits until `fd` is readable or at its end; false if `deadline` passed first.
bool WaitReadable(int fd, std::chrono::steady_clock::time_point deadline);

// Opens a descriptor that is readable once the process `pid` has ended; pidfd_open(2). It is
// invalid, with errno, if it cannot be opened. If `pid` is no child of this process, another
// process may have the number by now.
base::UniqueFd OpenPid(pid_t pid);

// Reaps the children that were given to ReapLater and have ended by now, and releases what they
// kept. Each start of a child does so, too.
void ReapDeadChildren();

// Takes over a child that was killed but has not ended yet, so that a later call reaps it. `kept`
// is held until then.
void ReapLater(pid_t pid, std::shared_ptr<void> kept = nullptr);

template <typename Answer>
base::StatusOr<std::vector<Answer>> AskChildForEach(
    std::string_view what, std::chrono::milliseconds timeout, size_t count,
    std::type_identity_t<std::function<int(std::span<Answer>)>> body, std::vector<int> keeps) {
  static_assert(std::is_trivially_copyable_v<Answer>);
  const std::shared_ptr<Answer[]> answers(new Answer[count]());
  const std::span<Answer> all(answers.get(), count);
  RETURN_IF_ERROR(RunInChild(
      what, timeout, std::as_writable_bytes(all),
      [answers, all, body = std::move(body)] { return body(all); }, std::move(keeps)));
  return std::vector<Answer>(all.begin(), all.end());
}

template <typename Answer>
base::StatusOr<Answer> AskChild(std::string_view what, std::chrono::milliseconds timeout,
                                std::type_identity_t<std::function<int(Answer&)>> body,
                                std::vector<int> keeps) {
  ASSIGN_OR_RETURN(
      const std::vector<Answer> answers,
      AskChildForEach<Answer>(
          what, timeout, 1,
          [body = std::move(body)](std::span<Answer> answers) { return body(answers.front()); },
          std::move(keeps)));
  return answers.front();
}

}  // namespace berth::platform
