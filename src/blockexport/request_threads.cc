#include "blockexport/request_threads.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/log.h"
#include "blockexport/block_store.h"

namespace berth::blockexport {

using base::MutexLock;
using base::StatusCode;
using std::chrono::steady_clock;

namespace {

constexpr int kWakeSignal = SIGUSR1;
// One waits while the other one answers.
constexpr size_t kLeastThreads = 2;
// A huge page, because direct I/O pins each page of a buffer, and a disk gets one segment for each
// piece that is contiguous in memory.
constexpr size_t kBufferSize = size_t{2} << 20;
// A write arrives as the kernel's two headers (linux/fuse.h: fuse_in_header, fuse_write_in) and
// then its data. A request is received so far before kDataOffset that the data is aligned.
constexpr size_t kDataOffset = kBufferAlignment;
constexpr size_t kWriteHeaders = 80;
constexpr std::chrono::milliseconds kJoinPause{10};

// libfuse reads up to 4096 bytes more than the largest transfer.
static_assert(kDataOffset + kLargestTransfer + 4096 <= kBufferSize);

// Gives an aligned buffer, whose memory is taken as it is used, and returns it in the end.
class Buffer {
 public:
  Buffer() {
    // Twice as much is mapped, so that there is an aligned huge page inside.
    void* mapped = mmap(nullptr, 2 * kBufferSize, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;
    mapped_ = mapped;
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    data_ = reinterpret_cast<char*>((address + kBufferSize - 1) / kBufferSize * kBufferSize);
    madvise(data_, kBufferSize, MADV_HUGEPAGE);
  }
  ~Buffer() {
    if (mapped_ != nullptr) munmap(mapped_, 2 * kBufferSize);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() const { return data_; }

 private:
  void* mapped_ = nullptr;
  char* data_ = nullptr;
};

// The handlers of libfuse are given the request only, so the thread knows its buffer and its owner.
thread_local char* buffer_of_this_thread = nullptr;
thread_local RequestThreads* owner_of_this_thread = nullptr;

}  // namespace

RequestThreads::RequestThreads(fuse_session& session, Options options)
    : session_(session), options_(options) {
  // The handler does nothing: it only makes read(2) fail with EINTR.
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(kWakeSignal, &action, nullptr);
}

RequestThreads::~RequestThreads() {
  // A request that hangs in the storage would hang the end of this process, and so keep the lock of
  // the volume.
  if (!JoinAll(std::chrono::milliseconds(0))) std::_Exit(1);
}

std::span<char> RequestThreads::ReadBuffer() {
  return {buffer_of_this_thread + kDataOffset, kLargestTransfer};
}

base::Status RequestThreads::Start() {
  MutexLock lock(mutex_);
  if (AddThread()) return base::OkStatus();
  return base::Error(StatusCode::kResourceExhausted, "the system refuses a thread");
}

bool RequestThreads::AddThread() {
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = std::jthread([this, &worker] { ReceiveRequests(worker); });
  } catch (const std::system_error& error) {
    LOG_WARNING("start a thread for requests: {}", error.what());
    workers_.pop_back();
    return false;
  }
  return true;
}

size_t RequestThreads::CountLive() const {
  return static_cast<size_t>(
      std::ranges::count_if(workers_, [](const Worker& one) { return !one.ended; }));
}

void RequestThreads::PrepareToWait() { owner_of_this_thread->AddReceiver(); }

void RequestThreads::AddReceiver() {
  if (receiving_ > 0) return;
  MutexLock lock(mutex_);
  if (receiving_ > 0 || CountLive() >= kMostThreads || stopped_) return;
  if (AddThread()) changed_.NotifyAll();
}

void RequestThreads::CountBusy() {
  const int busy = busy_.fetch_add(1) + 1;
  int most = most_busy_.load();
  while (busy > most && !most_busy_.compare_exchange_weak(most, busy)) {
  }
}

void RequestThreads::ReceiveRequests(Worker& worker) {
  pthread_setname_np(pthread_self(), "requests");
  const Buffer buffer;
  buffer_of_this_thread = buffer.data();
  owner_of_this_thread = this;
  bool connected = true;
  while (connected && buffer.data() != nullptr && !worker.ends) {
    fuse_buf request = {.size = 0, .mem = buffer.data() + kDataOffset - kWriteHeaders};
    receiving_.fetch_add(1);
    worker.receives = true;
    const int received = fuse_session_receive_buf(&session_, &request);
    worker.receives = false;
    receiving_.fetch_sub(1);
    if (received == -EINTR) continue;
    connected = received > 0;
    if (!connected) break;
    CountBusy();
    fuse_session_process_buf(&session_, &request);
    busy_.fetch_sub(1);
  }
  if (buffer.data() == nullptr) LOG_ERROR("no memory for a buffer of {} bytes", kBufferSize);
  MutexLock lock(mutex_);
  worker.ended = true;
  // While this thread still counted as receiving, another one may have taken a request without
  // adding a thread.
  const bool replaced = connected && buffer.data() != nullptr && !stopped_ && receiving_ == 0 &&
                        CountLive() < kMostThreads;
  if (replaced) AddThread();
  // Without memory the volume can be served only by the other threads.
  disconnected_ = disconnected_ || !connected || CountLive() == 0;
  changed_.NotifyAll();
}

void RequestThreads::EndSurplus() {
  const size_t needed =
      std::max(kLeastThreads, static_cast<size_t>(most_busy_.exchange(busy_.load())) + 1);
  size_t staying = static_cast<size_t>(
      std::ranges::count_if(workers_, [](const Worker& one) { return !one.ended && !one.ends; }));
  for (Worker& worker : workers_) {
    if (worker.ended) continue;
    if (!worker.ends && (staying <= needed || !worker.receives)) continue;
    if (!worker.ends) --staying;
    worker.ends = true;
    // A thread that missed its signal gets another one in the next period.
    if (worker.receives) pthread_kill(worker.thread.native_handle(), kWakeSignal);
  }
}

void RequestThreads::JoinEnded() {
  // Those threads have nothing left to do that needs the mutex.
  std::erase_if(workers_, [](const Worker& one) { return one.ended; });
}

bool RequestThreads::Wait() {
  MutexLock lock(mutex_);
  auto period_end = steady_clock::now() + options_.period;
  while (!stopped_ && !disconnected_) {
    JoinEnded();
    if (workers_.size() <= kLeastThreads) {
      changed_.Wait(mutex_);
      period_end = steady_clock::now() + options_.period;
      continue;
    }
    if (changed_.WaitUntil(mutex_, period_end)) continue;
    EndSurplus();
    period_end = steady_clock::now() + options_.period;
  }
  return stopped_;
}

void RequestThreads::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

bool RequestThreads::JoinAll(std::chrono::milliseconds within) {
  const auto deadline = steady_clock::now() + within;
  MutexLock lock(mutex_);
  stopped_ = true;
  for (;;) {
    JoinEnded();
    if (workers_.empty()) return true;
    for (Worker& worker : workers_) {
      worker.ends = true;
      if (worker.receives) pthread_kill(worker.thread.native_handle(), kWakeSignal);
    }
    if (steady_clock::now() >= deadline) return false;
    // The pause repeats the signal, which a thread misses that is about to receive.
    changed_.WaitFor(mutex_, kJoinPause);
  }
}

}  // namespace berth::blockexport
