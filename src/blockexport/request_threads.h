// The threads that receive the requests of one FUSE connection and answer them.
//
// A request to a storage that answers late delays no other one: before a thread waits for the
// storage (PrepareToWait), another one is there that receives the next request, up to kMostThreads.
// A thread that only begins a transfer (small_transfers.h) goes on itself, because each further
// thread that receives costs a switch between threads for each request. Threads that the requests
// of the last period did not need are ended. Each thread has one buffer of kBufferSize, so memory
// is bounded.
//
// A thread that is to end gets SIGUSR1, because it waits in read(2). The signal may also reach a
// thread that has just received a request.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "blockexport/fuse.h"

namespace berth::blockexport {

// The largest read or write: what libfuse allows.
inline constexpr size_t kLargestTransfer = size_t{1} << 20;
// How many reads and writes the kernel sends at once.
inline constexpr unsigned kMostTransfers = 16;
// Two more threads than that answer what the kernel does not count: an fsync or a discard that
// waits for the storage, and beside it a question for the file's size.
inline constexpr size_t kMostThreads = kMostTransfers + 2;

class RequestThreads {
 public:
  struct Options {
    // How long threads are kept that no request needed.
    std::chrono::milliseconds period;
  };
  // `session` is borrowed, and has its connection.
  RequestThreads(fuse_session& session, Options options);
  // Ends the process if JoinAll was not called, or failed, because a request may still run.
  ~RequestThreads();
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  // Starts the first thread. RESOURCE_EXHAUSTED: the system refuses a thread.
  base::Status Start();
  // Waits until Stop is called (true), or until the connection has ended (false). Meanwhile ends
  // the threads that are not needed.
  bool Wait();
  // Makes Wait return. From any thread.
  void Stop();
  // Ends all threads once they have answered what they received. False: a request still runs after
  // `within`.
  bool JoinAll(std::chrono::milliseconds within);

  // The calling thread is about to wait for the storage, so another one has to receive requests.
  // Only for the handlers of requests, any number of times.
  static void PrepareToWait();
  // The part of the calling thread's buffer that takes the data of a read: kLargestTransfer bytes,
  // aligned to kBufferAlignment. Only for the handlers of requests.
  static std::span<char> ReadBuffer();

 private:
  struct Worker {
    std::atomic<bool> ends{false};      // it is to end
    std::atomic<bool> receives{false};  // it waits for a request
    bool ended = false;                 // guarded by the mutex_ of its owner
    std::jthread thread;
  };

  // False: the system refuses a thread.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReceiveRequests(Worker& worker);
  // Threads that have not ended.
  size_t CountLive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes sure that a thread receives requests, if there may be one more.
  void AddReceiver();
  void CountBusy();
  // Ends as many waiting threads as the last period did not need.
  void EndSurplus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JoinEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  fuse_session& session_;
  const Options options_;
  std::atomic<int> receiving_{0};  // threads that wait for a request
  std::atomic<int> busy_{0};       // threads that answer one
  std::atomic<int> most_busy_{0};  // of the present period
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool disconnected_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::blockexport
