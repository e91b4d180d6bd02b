// Runs a function in a child process with a deadline, for system calls that can block for ever
// (mount, umount, stat of a dead file system): "Nothing hangs the agent".
//
// The child shares this process's memory, since copies of page tables cost an agent of many threads
// more than all the rest of a mount (docs/adr/0019-children-share-memory.md); descriptors, working
// folder, namespaces and signals are its own. One that is stuck in the kernel outlives the call,
// and the kernel may still read its arguments and write its results: a body therefore owns all that
// it touches, and captures by value alone. For the same reason it has only the descriptors that it
// is given in `keeps`, with their numbers: with a copy of another one it would keep a lock held, a
// connection open or a volume busy that it has nothing to do with.
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

// `body` may use only async-signal-safe calls on data prepared before, since it may be killed at
// any moment: raw system calls, no allocation, no locks; it has a stack of 256 KiB, and returns 0
// or an errno. DEADLINE_EXCEEDED: the child did not come back in time. It was sent SIGKILL and is
// reaped by a later call, when the kernel has let it go; the outcome is unknown.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::function<int()> body, std::vector<int> keeps = {});

// As above; `reply`, which `body` owns, has after OK what the child left there.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        std::span<std::byte> reply, std::function<int()> body,
                        std::vector<int> keeps = {});

// As RunInChild, for a body that fills in an answer, value-initialized before.
template <typename Answer>
base::StatusOr<Answer> AskChild(std::string_view what, std::chrono::milliseconds timeout,
                                std::type_identity_t<std::function<int(Answer&)>> body,
                                std::vector<int> keeps = {});

// As AskChild, for `count` answers.
template <typename Answer>
base::StatusOr<std::vector<Answer>> AskChildForEach(
    std::string_view what, std::chrono::milliseconds timeout, size_t count,
    std::type_identity_t<std::function<int(std::span<Answer>)>> body, std::vector<int> keeps = {});

// As RunInChild, for a body that opens something: a path can lead through a file system that
// answers no more. The body returns a descriptor or a negative errno; both come back, the
// descriptor as one of this process.
struct OpenedInChild {
  base::UniqueFd fd;
  int error = 0;  // an errno, if `fd` is not valid
};
base::StatusOr<OpenedInChild> OpenInChild(std::string_view what, std::chrono::milliseconds timeout,
                                          std::function<int()> body, std::vector<int> keeps = {});

// OK if the device's first sector can be read in time, or an error comes back.
base::Status CheckReads(const std::string& device, std::chrono::milliseconds timeout);

// Closes all descriptors of the calling process but these. Async-signal-safe.
void CloseAllBut(std::span<const int> kept);

// A descriptor that is readable once the process `pid`, a child of this one, has ended;
// pidfd_open(2).
base::UniqueFd OpenPid(pid_t pid);

// Reaps what was handed over and is dead by now, and lets go of what it kept. Each start of a child
// does so, too.
void ReapTheDead();

// Hands a child that was killed but is not gone yet over to be reaped by a later call; `kept` stays
// until then.
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
