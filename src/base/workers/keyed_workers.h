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
// Thread-safe. The destructor calls Stop.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/queue_metrics.h"
#include "base/workers/worker_shares.h"

namespace berth::base {

class FlightRecorder;

class KeyedWorkers {
 public:
  struct Options {
    std::string name;  // for logs and thread names; at most 15 bytes are kept for the latter
    int workers = 4;   // at most: a worker is started when a key waits for one
    // A worker that has had nothing to do for this long ends.
    std::chrono::milliseconds idle_time{5000};
    // For work that can hang (a mount, a device): when a key waits and no worker has taken a key
    // for `patience`, a spare worker is started, until there are `max_workers` in all. It
    // ends as any other. 0: there are none.
    int max_workers = 0;
    std::chrono::milliseconds patience{1000};
    std::chrono::milliseconds retry_start{1000};  // first backoff; doubles
    std::chrono::milliseconds retry_max{300000};
    // The group of a key, by which workers are shared (WorkerShares). It is called while a lock is
    // held that every call of this object takes, so it must not wait for whoever makes such a call.
    // Null: all keys are alike.
    std::function<std::string(const std::string& key)> group = nullptr;
    // The recorder in which the work of each key is recorded, as "NAME KEY"; borrowed. Null:
    // nothing is recorded.
    FlightRecorder* flight = nullptr;
    // Where the queue's metrics (queue_metrics.h) are counted, under the name `metrics_name`;
    // borrowed. Null, or without a name: nothing is counted.
    Metrics* metrics = nullptr;
    std::string metrics_name = {};
  };

  // The result of one run of a key's work.
  struct Outcome {
    static Outcome Done() { return {}; }
    // The run failed, which is logged; the key runs again after its backoff. If `delay` is set, the
    // backoff is not that of Options: it starts at `delay` and doubles up to 16 times `delay`.
    static Outcome Retry(Status why) { return {.status = std::move(why)}; }
    // The run did not fail, and the key runs again after `delay`. The backoff is reset.
    static Outcome After(std::chrono::milliseconds delay) { return {.delay = delay}; }
    static Outcome From(const Status& status) { return status.ok() ? Done() : Retry(status); }

    Status status = OkStatus();
    std::chrono::milliseconds delay{-1};  // negative: not set
  };
  // Runs on several threads at once, for different keys.
  using Work = std::function<Outcome(const std::string& key)>;

  KeyedWorkers(Options options, Work work);
  ~KeyedWorkers();
  KeyedWorkers(const KeyedWorkers&) = delete;
  KeyedWorkers& operator=(const KeyedWorkers&) = delete;

  void Start();
  // Drops the queued keys and waits for the running ones. Work must not call it. Idempotent.
  void Stop();

  // Queues `key` unless it is queued already or waits for its backoff; if it is running, it runs
  // once more afterwards. Keys may be added before Start.
  void Add(const std::string& key);
  // As Add, but ends the wait for a backoff; if the key is running and fails, it runs again at
  // once. The count of failures stays, so that the next backoff is not shorter.
  void AddNow(const std::string& key);
  // Queues `key` to run after `delay`, unless it is queued to run earlier. A backoff that would end
  // later is cut short.
  void AddAfter(const std::string& key, std::chrono::milliseconds delay);

  // For tests: waits until no key runs and none is due. False: the time-out has passed.
  bool WaitIdle(std::chrono::milliseconds timeout);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    bool running = false;
    bool queued = false;     // has a place in queue_
    bool again = false;      // was added while running
    bool again_now = false;  // by AddNow: a failure's backoff does not apply
    Time due;                // its place in queue_
    std::string group;       // as it was when the key was queued, or began to run
    int failures = 0;
    bool backing_off = false;
  };

  bool HasFreeWorker() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a worker. False: no thread can be started, which is logged.
  bool AddWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called by a worker that ends, as its last access to this object.
  void RemoveWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a worker if a key waits, none is free, and there may be one more.
  void AddWantedWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSpareWorkers() ABSL_LOCKS_EXCLUDED(mutex_);
  void WorkerLoop();
  // The first key that is due and whose group may have a worker; the end: there is none.
  std::multimap<Time, std::string>::iterator FindKey(Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a key that is due and may run, and marks it as running. nullopt: this worker is to
  // end.
  std::optional<std::string> TakeKey() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunKey(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // The delay if this run of `key` ends with `outcome`, which is a failure.
  std::chrono::milliseconds NextRetryDelay(const std::string& key, const Outcome& outcome)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues `key` to run at `due`, unless it is queued to run earlier.
  void Enqueue(const std::string& key, Entry& entry, Time due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishRun(const std::string& key, const Outcome& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues the key after a failed run. Returns the time until it runs again.
  std::chrono::milliseconds QueueRetry(const std::string& key, Entry& entry, const Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues the key after a run without failure if it is to run again, and forgets it otherwise.
  void SettleKey(const std::string& key, Entry& entry, const Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The delay after a failed run that follows `failures` failed ones of the same key.
  std::chrono::milliseconds RetryDelay(const Outcome& outcome, int failures) const;
  void CollectMetrics(Metrics::Gauges& gauges) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const Work work_;
  Mutex mutex_;
  // One of the idle workers keeps the time: it waits until the next key is due. The other idle
  // workers wait until they are wanted. A key that is due and whose group may have no worker is
  // found by the worker that ends its run next.
  CondVar first_due_;
  CondVar idle_;
  CondVar settled_;   // nothing runs
  CondVar all_busy_;  // no worker is free, or the queue's first key has changed
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool timekeeper_ ABSL_GUARDED_BY(mutex_) = false;
  Time awaited_ ABSL_GUARDED_BY(mutex_);  // by the timekeeper
  WorkerShares shares_ ABSL_GUARDED_BY(mutex_);
  int idle_workers_ ABSL_GUARDED_BY(mutex_) = 0;    // the timekeeper not counted
  int workers_ ABSL_GUARDED_BY(mutex_) = 0;         // that have not ended
  int coming_workers_ ABSL_GUARDED_BY(mutex_) = 0;  // that are about to ask for a key
  Time last_taken_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::multimap<Time, std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<QueueMetrics> queue_metrics_ ABSL_GUARDED_BY(mutex_);
  std::list<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
  std::jthread ended_ ABSL_GUARDED_BY(mutex_);  // of the worker that ended last, not yet joined
  std::unique_ptr<Metrics::Collector> collector_;
};

}  // namespace berth::base
