#include "platform/allocator.h"

#include <malloc.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace berth::platform {

namespace {

constexpr char kTunables[] = "GLIBC_TUNABLES";
constexpr std::string_view kTunable = "glibc.malloc.tcache_count";
// The nodes and short strings of one object. With less, two threads that read long lists wait for
// each other's lock if they share an arena.
constexpr std::string_view kSmallThreadCaches =
    "glibc.malloc.tcache_count=32:glibc.malloc.tcache_max=88";

}  // namespace

void TuneAllocator() {
  // The default is eight arenas per core, and each arena keeps the memory that a burst used.
  mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  // Without this, malloc would serve the next long answer of the API server from an arena after the
  // first one was freed, and the arena would stay as large.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  // Fast bins are turned off, because malloc joins their chunks with the neighbours whenever a
  // larger object is requested, and that is often. The caches of the threads remain.
  mallopt(M_MXFAST, 0);
}

void RestartWithSmallThreadCaches(char** argv) {
  const char* value = std::getenv(kTunables);
  std::string tunables = value == nullptr ? "" : value;
  if (tunables.find(kTunable) != std::string::npos) {
    // This is the restarted program, or somebody chose the size of the caches.
    if (!tunables.ends_with(kSmallThreadCaches)) return;
    tunables.resize(tunables.size() - kSmallThreadCaches.size());
    if (tunables.ends_with(':')) tunables.pop_back();
    if (tunables.empty()) {
      unsetenv(kTunables);
    } else {
      setenv(kTunables, tunables.c_str(), 1);
    }
    return;
  }
  // The C library ignores the variable in a program that gains rights by its execution.
  if (getauxval(AT_SECURE) != 0) return;
  // The link is not executed itself, because the process would get its name, "exe".
  std::array<char, PATH_MAX> self;
  const ssize_t size = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (size <= 0) return;
  self[static_cast<size_t>(size)] = '\0';
  const std::string before = tunables;
  if (!tunables.empty()) tunables += ':';
  tunables += kSmallThreadCaches;
  setenv(kTunables, tunables.c_str(), 1);
  execv(self.data(), argv);
  if (value == nullptr) {
    unsetenv(kTunables);
  } else {
    setenv(kTunables, before.c_str(), 1);
  }
}

void TrimMemory(std::chrono::milliseconds interval) {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::time_point> last{Clock::time_point()};  // when the machine booted
  const Clock::time_point now = Clock::now();
  Clock::time_point seen = last.load();
  if (now - seen < interval) return;
  if (last.compare_exchange_strong(seen, now)) malloc_trim(0);
}

}  // namespace berth::platform
