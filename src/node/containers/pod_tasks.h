// Runs tasks that may take long (stops with a grace period, hooks, pulls) outside the pods' queues.
//
// There is one task for each key: a second one is refused while the first is queued or runs. At
// most `max_threads` tasks run at a time, which groups share (base::WorkerShares), because a
// tenant's tasks can take as long as he likes. Threads are started when needed and end when there
// is nothing to do. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/workers/worker_shares.h"

namespace berth::node {

class PodTasks {
 public:
  explicit PodTasks(int max_threads) : max_threads_(max_threads), shares_(max_threads) {}
  ~PodTasks() { Stop(); }
  PodTasks(const PodTasks&) = delete;
  PodTasks& operator=(const PodTasks&) = delete;

  // Queues a task of a group, as a rule the pod's namespace. False: a task with this key exists
  // already, Stop was called, or no thread can be started, which is logged. Stop() requests a stop
  // of the task's stop_token. `after` runs on the task's thread when the key is free again.
  bool RunTask(const std::string& key, const std::string& group,
               std::function<void(std::stop_token stop)> task,
               std::function<void()> after = nullptr);
  bool IsBusy(const std::string& key) const;
  // Drops the queued tasks, requests a stop of the running ones, and waits for them.
  void Stop();

 private:
  struct Task {
    std::string key;
    std::string group;
    std::function<void(std::stop_token)> run;
    std::function<void()> after;
  };
  // The first task whose group may have a thread; the end: there is none.
  std::deque<Task>::iterator FindTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts a thread if one may be started and a task can run. False: no thread runs or can start.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunWorker();

  const int max_threads_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::stop_source stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
  base::WorkerShares shares_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> keys_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> finished_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
