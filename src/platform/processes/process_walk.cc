#include "platform/processes/process_walk.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "platform/processes/child.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// A child is given up if it has been at one process for this time. What does not block takes
// microseconds, but a busy machine may keep the child from running.
constexpr milliseconds kPatience(500);
constexpr milliseconds kChildTime(1'000);
constexpr std::chrono::seconds kRemembered(20);
// For a process that has not run since. It is asked again at last, because the lock that readers
// wait for may be held by another process, which shares its memory.
constexpr std::chrono::minutes kRememberedAtRest(10);
constexpr size_t kMostRemembered = 1024;

// How often the threads of the process have begun to wait or were interrupted so far. As long as
// the number stays, none of them has run, and so none has released what readers wait for. nullopt:
// it cannot be told, or the process has many threads.
std::optional<uint64_t> CountSwitches(pid_t pid) {
  constexpr size_t kMostThreads = 64;
  constexpr size_t kMost = 16 * 1024;
  constexpr std::string_view kField = "voluntary_ctxt_switches:\t";  // of both lines
  const std::vector<int> threads = ListNumbers(fmt::format("/proc/{}/task", pid));
  if (threads.empty() || threads.size() > kMostThreads) return std::nullopt;
  uint64_t sum = 0;
  for (const int thread : threads) {
    std::string status;
    if (base::ReadWholeFile(fmt::format("/proc/{}/task/{}/status", pid, thread), kMost, status) !=
        0) {
      return std::nullopt;
    }
    size_t at = status.find(kField);
    if (at == std::string::npos) return std::nullopt;
    for (; at != std::string::npos; at = status.find(kField, at)) {
      uint64_t count = 0;
      at += kField.size();
      std::from_chars(status.data() + at, status.data() + status.size(), count);
      sum += count;
    }
  }
  return sum;
}

// The processes at which a child was given up.
class StuckProcesses {
 public:
  // `switches`: of CountSwitches, from before the last child asked.
  void Add(pid_t pid, std::optional<uint64_t> switches) {
    base::UniqueFd fd = OpenPid(pid);
    base::MutexLock lock(mutex_);
    if (fd.valid() && known_.size() < kMostRemembered) {
      known_.insert_or_assign(pid, Known{std::move(fd), steady_clock::now(), switches});
    }
  }

  // The descriptor holds the process, so no other process has the number while it lives.
  enum class Memory { kNone, kOld, kFresh };
  Memory Find(pid_t pid) {
    base::MutexLock lock(mutex_);
    const auto found = known_.find(pid);
    if (found == known_.end()) return Memory::kNone;
    pollfd ended = {.fd = found->second.process.get(), .events = POLLIN, .revents = 0};
    if (poll(&ended, 1, 0) != 0) {
      known_.erase(found);
      return Memory::kNone;
    }
    const Known& known = found->second;
    const auto age = steady_clock::now() - known.since;
    const bool at_rest = age >= kRemembered && age < kRememberedAtRest &&
                         known.switches.has_value() && CountSwitches(pid) == known.switches;
    return age < kRemembered || at_rest ? Memory::kFresh : Memory::kOld;
  }

  void Remove(pid_t pid) {
    base::MutexLock lock(mutex_);
    known_.erase(pid);
  }

  void Age(std::chrono::seconds time) {
    base::MutexLock lock(mutex_);
    for (auto& [pid, known] : known_) known.since -= time;
  }

 private:
  struct Known {
    base::UniqueFd process;
    steady_clock::time_point since;
    std::optional<uint64_t> switches;
  };
  base::Mutex mutex_;
  std::map<pid_t, Known> known_ ABSL_GUARDED_BY(mutex_);
};

StuckProcesses& GetStuckProcesses() {
  // It is never destroyed, because processes may be walked until this process ends.
  static StuckProcesses& stuck = *new StuckProcesses;
  return stuck;
}

// Where a child is. Each number is written by one process at a time.
struct Progress {
  std::atomic<uint64_t> begun;  // the index of the process that the child asks about, plus 1
  std::atomic<uint64_t> done;   // likewise, of the last one that answered
  std::atomic<int64_t> since;   // when it began, of CLOCK_MONOTONIC
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

int64_t NowNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void LogStuck(std::string_view what, const std::vector<pid_t>& stuck) {
  if (stuck.empty()) return;
  std::string pids;
  for (const pid_t pid : stuck) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
  LOG_WARNING(
      "{}: left out processes that keep everybody from reading them, because they wait for a file "
      "system that does not answer: {}",
      what, pids);
}

size_t ReadUpTo(int fd, std::span<char> text) {
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  return size;
}

}  // namespace

ProcessPath::ProcessPath(std::string_view proc, pid_t pid, std::string_view name) {
  constexpr size_t kDigits = 16;
  if (proc.size() + kDigits + name.size() + 3 > text_.size()) return;
  char* at = std::copy(proc.begin(), proc.end(), text_.data());
  *at++ = '/';
  at = std::to_chars(at, at + kDigits, pid).ptr;
  *at++ = '/';
  std::copy(name.begin(), name.end(), at);
}

size_t ReadProcessFile(const ProcessPath& path, std::span<char> text) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const size_t size = ReadUpTo(fd, text);
  close(fd);
  return size;
}

size_t ReadProcessLink(const ProcessPath& path, std::span<char> target) {
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  return size < 0 ? 0 : static_cast<size_t>(size);
}

namespace internal {

SharedMemory::SharedMemory(size_t size) : size_(size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) data_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

void AgeStuckProcesses(std::chrono::seconds time) { GetStuckProcesses().Age(time); }

std::vector<Asked> WalkProcesses(std::string_view what, const std::vector<pid_t>& pids,
                                 milliseconds within, const std::function<void(size_t)>& ask) {
  const auto deadline = steady_clock::now() + within;
  std::vector<Asked> asked(pids.size(), Asked::kStuck);
  std::vector<size_t> left;  // the indices of the processes that a child has to ask about
  std::vector<size_t> last;  // of those, the ones that were stuck a while ago
  for (size_t i = 0; i < pids.size(); ++i) {
    const auto memory = GetStuckProcesses().Find(pids[i]);
    if (memory != StuckProcesses::Memory::kFresh) {
      (memory == StuckProcesses::Memory::kOld ? last : left).push_back(i);
    }
  }
  const std::set<size_t> were_stuck(last.begin(), last.end());
  left.insert(left.end(), last.begin(), last.end());
  std::vector<pid_t> stuck;
  std::optional<size_t> suspect;     // a child was given up at it once
  std::optional<uint64_t> switches;  // of that process, then
  while (!left.empty() && steady_clock::now() < deadline) {
    const auto memory = std::make_shared<SharedMemory>(sizeof(Progress));
    if (memory->data() == nullptr) break;
    auto* progress = new (memory->data()) Progress{};
    const auto order = std::make_shared<const std::vector<size_t>>(left);
    const base::Status walked = RunInChild(what, kChildTime, [memory, progress, order, ask] {
      for (size_t i = 0; i < order->size(); ++i) {
        progress->since = NowNanoseconds();
        progress->begun = i + 1;
        ask((*order)[i]);
        progress->done = i + 1;
      }
      return 0;
    });
    const auto done = static_cast<size_t>(progress->done.load());
    const auto begun = static_cast<size_t>(progress->begun.load());
    for (size_t i = 0; i < done; ++i) {
      asked[left[i]] = Asked::kAnswered;
      if (were_stuck.contains(left[i])) GetStuckProcesses().Remove(pids[left[i]]);
    }
    const nanoseconds waited(NowNanoseconds() - progress->since.load());
    size_t next = done;
    if (begun > done &&
        (waited >= kPatience || walked.code() != base::StatusCode::kDeadlineExceeded)) {
      // The machine may have stood still, so a second child is asked.
      if (suspect == left[done]) {
        stuck.push_back(pids[left[done]]);
        GetStuckProcesses().Add(stuck.back(), switches);
        ++next;
      }
      suspect = left[done];
      switches = CountSwitches(pids[*suspect]);
    } else if (!walked.ok() && walked.code() != base::StatusCode::kDeadlineExceeded) {
      LOG_WARNING("{}", base::ToString(walked));
      break;
    }
    left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(next));
  }
  LogStuck(what, stuck);
  return asked;
}

}  // namespace internal

base::StatusOr<base::ProcessStat> ReadForeignStat(pid_t pid) {
  constexpr std::chrono::seconds kTime(5);
  struct Text {
    std::array<char, 4096> text;
    size_t size;
  };
  const auto asked = AskOfProcesses<Text>(
      fmt::format("read the state of process {}", pid), {pid}, kTime, [](pid_t pid, Text& text) {
        text.size = ReadProcessFile({"/proc", pid, "stat"}, text.text);
      });
  if (!asked.stuck.empty()) {
    return base::Error(base::StatusCode::kDeadlineExceeded,
                       "process {} keeps everybody from reading its state", pid);
  }
  const Text& text = asked.answers.at(pid);
  auto stat = base::ParseProcessStat({text.text.data(), text.size});
  if (!stat.has_value()) {
    return base::Error(base::StatusCode::kNotFound, "there is no process {}", pid);
  }
  return *std::move(stat);
}

uint64_t ReadForeignStartTicks(pid_t pid) {
  const auto stat = ReadForeignStat(pid);
  return stat.ok() ? stat->start_ticks : 0;
}

}  // namespace berth::platform
