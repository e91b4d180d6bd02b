// Asks about processes of others what can block for ever.
//
// A process in execve closes the files that its new program must not have, and until it has closed
// them the kernel lets no one, not even root, read most of /proc/PID: stat, environ, stack, wchan,
// syscall, maps, and the links exe, cwd, root, fd/N and ns/*. A FUSE or NFS server that does not
// answer the close makes that wait endless. fdinfo/N of an epoll descriptor waits likewise, while a
// file of such a server is asked whether it is ready (POLL): the epoll's lock is held meanwhile.
// Without a wait the kernel shows comm, cgroup, status, cmdline, mountinfo, the fdinfo/N of other
// descriptors and the names in fd/, fdinfo/ and task/ (seen with Linux 6.18).
//
// Any tenant can make such a process. So those files are read here alone: in a child that notes at
// which process it is, and that is given up there; another child goes on with the next process.
// What fd/N leads to is read before fdinfo/N, so that only the fdinfo of what is sought is read.
//
//   processes ─▶ child: 1 2 3 … (given up at 4, twice) ─▶ child: 5 6 …   4: `stuck`
//
// A process at which a child was given up is remembered: the walks of the next 20 seconds pass it
// without a wait, and those of the next ten minutes as long as none of its threads has run since
// (by the counts of their context switches). Later walks ask it last, so that many such processes
// do not keep them from the others. Thread-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/files/process_stat.h"
#include "base/status.h"

namespace berth::platform {

// "PROC/PID/NAME", written without allocation, for children. Empty if it is too long.
class ProcessPath {
 public:
  ProcessPath(std::string_view proc, pid_t pid, std::string_view name);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 256> text_{};
};

// Reads at most text.size() bytes of a file, or of the target of a link, and returns how many it
// read. 0: it cannot be read. Async-signal-safe, for children.
size_t ReadProcessFile(const ProcessPath& path, std::span<char> text);
size_t ReadProcessLink(const ProcessPath& path, std::span<char> target);

template <typename Answer>
struct ProcessAnswers {
  std::map<pid_t, Answer> answers;
  // The processes that keep everybody from reading them, and those that were not reached in time.
  // They are in the log, too.
  std::vector<pid_t> stuck;
  // What a stuck process had given before it was given up; what came later is value-initialised.
  std::map<pid_t, Answer> parts;
};

// Calls `ask` for each process, in a child as of RunInChild (child.h), whose rules hold for `ask`:
// async-signal-safe calls only, and it captures by value. An answer is value-initialised before.
// The walk ends after `within`, and at most a second later.
template <typename Answer>
ProcessAnswers<Answer> AskOfProcesses(
    std::string_view what, const std::vector<pid_t>& pids, std::chrono::milliseconds within,
    std::type_identity_t<std::function<void(pid_t, Answer&)>> ask);

// Reads /proc/PID/stat of a process that may be anybody's. NOT_FOUND: there is no such process.
// DEADLINE_EXCEEDED: it keeps everybody from reading it.
base::StatusOr<base::ProcessStat> ReadForeignStat(pid_t pid);

// As base::ReadStartTicks, for a process that may be anybody's. 0: there is no such process, or it
// keeps everybody from reading it.
uint64_t ReadForeignStartTicks(pid_t pid);

namespace internal {

// Memory that a child shares with this process even if it has a copy of all other memory.
class SharedMemory {
 public:
  explicit SharedMemory(size_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return data_; }  // zeroes; nullptr: there is no memory

 private:
  const size_t size_;
  std::byte* data_ = nullptr;
};

enum class Asked { kAnswered, kStuck };
// Calls `ask` with the index of each process.
std::vector<Asked> WalkProcesses(std::string_view what, const std::vector<pid_t>& pids,
                                 std::chrono::milliseconds within,
                                 const std::function<void(size_t)>& ask);

// For tests: makes what is remembered of stuck processes older.
void AgeStuckProcesses(std::chrono::seconds time);

}  // namespace internal

template <typename Answer>
ProcessAnswers<Answer> AskOfProcesses(
    std::string_view what, const std::vector<pid_t>& pids, std::chrono::milliseconds within,
    std::type_identity_t<std::function<void(pid_t, Answer&)>> ask) {
  static_assert(std::is_trivially_copyable_v<Answer>);
  ProcessAnswers<Answer> out;
  if (pids.empty()) return out;
  const auto memory = std::make_shared<internal::SharedMemory>(sizeof(Answer) * pids.size());
  if (memory->data() == nullptr) {
    out.stuck = pids;
    return out;
  }
  const auto answers = reinterpret_cast<Answer*>(memory->data());
  const auto list = std::make_shared<const std::vector<pid_t>>(pids);
  const auto asked = internal::WalkProcesses(
      what, pids, within, [memory, answers, list, ask = std::move(ask)](size_t i) {
        ask((*list)[i], answers[i] = Answer());
      });
  for (size_t i = 0; i < pids.size(); ++i) {
    if (asked[i] == internal::Asked::kAnswered) {
      out.answers.emplace(pids[i], answers[i]);
    } else {
      out.stuck.push_back(pids[i]);
      out.parts.emplace(pids[i], answers[i]);
    }
  }
  return out;
}

}  // namespace berth::platform
