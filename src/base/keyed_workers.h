// A deduplicating, rate-limited queue of keys with its workers: the heart of every controller, and
// the serial queue per volume and per pod of the node agent.
//
//        Add ──▶ [queued] ──▶ [running] ──▶ done: forgotten, backoff reset
//                   ▲             │  ├────▶ failed: queued again after the backoff
//                   └── Add while running: runs once more afterwards
//
// A key never runs on two workers at once, and however often it is added while queued it runs once.
// Work gets only the key, so it reads the present state rather than acting on a stale event. Adding
// a key that waits for its backoff does not cut the backoff short (a controller's own error writes
// would reset it); AddNow does, for events that change the outcome.
//
// Thread-safe. The destructor stops; work that runs is waited for, what is queued is dropped.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::base {

class FlightRecorder;

class KeyedWorkers {
 public:
  struct Options {
    std::string name;  // for logs and thread names; at most 15 bytes are kept for the latter
    int workers = 4;   // at most: a worker is started when a key first waits for it, and stays
    // For work that can hang (a mount, a device): when a key waits and no worker has taken a key
    // for `patience`, a spare worker is started, until there are `max_workers` in all. Spare
    // workers stay. 0: there are none.
    int max_workers = 0;
    std::chrono::milliseconds patience{1000};
    std::chrono::milliseconds retry_start{1000};  // first backoff; doubles
    std::chrono::milliseconds retry_max{300000};
    // Where the work of each key is recorded, as "NAME KEY"; borrowed. Null: nowhere.
    FlightRecorder* flight = nullptr;
  };

  // What became of one run of a key's work.
  struct Outcome {
    static Outcome Done() { return {}; }
    // Run again after the key's backoff (with `delay`: doubling from it to 16 times); it is logged.
    static Outcome Retry(Status why) { return {.status = std::move(why)}; }
    // Run again after `delay`, which is no failure: the backoff is reset.
    static Outcome After(std::chrono::milliseconds delay) { return {.delay = delay}; }
    static Outcome From(const Status& status) { return status.ok() ? Done() : Retry(status); }

    Status status = OkStatus();
    std::chrono::milliseconds delay{-1};
  };
  using Work = std::function<Outcome(const std::string& key)>;

  KeyedWorkers(Options options, Work work);
  ~KeyedWorkers();
  KeyedWorkers(const KeyedWorkers&) = delete;
  KeyedWorkers& operator=(const KeyedWorkers&) = delete;

  void Start();
  // Waits for running work. Idempotent.
  void Stop();

  // Queues `key` unless it is queued already or waits for its backoff. Keys may be added before
  // Start.
  void Add(const std::string& key);
  // Queues `key` at once, ending its wait but keeping its count of failures.
  void AddNow(const std::string& key);
  // Queues `key` after `delay`, unless it would run earlier anyway.
  void AddAfter(const std::string& key, std::chrono::milliseconds delay);

  // Waits until nothing is queued to run now nor running; for tests. False at the time-out.
  bool WaitIdle(std::chrono::milliseconds timeout);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    bool running = false;
    bool queued = false;     // has a place in queue_
    bool again = false;      // was added while running
    bool again_now = false;  // by AddNow: a failure's backoff does not apply
    Time due;                // its place in queue_
    int failures = 0;
    bool backing_off = false;
  };

  bool HasFreeWorker() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if no thread can be started, which is logged.
  bool AddWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a worker if a key waits, none is free, and there may be one more.
  void AddWantedWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSpareWorkers() ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkerLoop();
  // Waits for a key that is due, and marks it as running. None: the workers stop.
  std::optional<std::string> TakeKey() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  std::chrono::milliseconds NextDelay(const std::string& key, const Outcome& outcome)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Enqueue(const std::string& key, Entry& entry, Time due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const std::string& key, const Outcome& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the time until the key is run again.
  std::chrono::milliseconds Failed(const std::string& key, Entry& entry, const Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Succeeded(const std::string& key, Entry& entry, const Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The delay after a failed run that follows `failures` failed ones of the same key.
  std::chrono::milliseconds RetryDelay(const Outcome& outcome, int failures) const;

  const Options options_;
  const Work work_;
  Mutex mutex_;
  // One of the idle workers keeps the time: it waits until the first key is due. The other idle
  // workers wait until they are wanted.
  CondVar first_due_;
  CondVar idle_;
  CondVar settled_;   // nothing runs
  CondVar all_busy_;  // no worker is free
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool timekeeper_ ABSL_GUARDED_BY(mutex_) = false;
  int idle_workers_ ABSL_GUARDED_BY(mutex_) = 0;    // the timekeeper not counted
  int workers_ ABSL_GUARDED_BY(mutex_) = 0;         // that were started
  int coming_workers_ ABSL_GUARDED_BY(mutex_) = 0;  // that are about to ask for a key
  Time last_taken_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::multimap<Time, std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::base
