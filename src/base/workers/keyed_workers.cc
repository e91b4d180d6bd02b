#include "base/workers/keyed_workers.h"

#include <pthread.h>

#include <algorithm>

#include "base/flight.h"
#include "base/log.h"

namespace berth::base {

using std::chrono::steady_clock;

KeyedWorkers::KeyedWorkers(Options options, Work work)
    : options_(std::move(options)),
      work_(std::move(work)),
      shares_(std::max(options_.workers, options_.max_workers)) {
  if (options_.metrics == nullptr || options_.metrics_name.empty()) return;
  {
    MutexLock lock(mutex_);
    queue_metrics_.emplace(*options_.metrics, options_.metrics_name);
  }
  collector_ = options_.metrics->CollectWith([this](auto& gauges) { CollectMetrics(gauges); });
}

KeyedWorkers::~KeyedWorkers() {
  collector_.reset();
  Stop();
}

void KeyedWorkers::Start() {
  MutexLock lock(mutex_);
  started_ = true;
  AddWantedWorker();
  if (options_.max_workers > options_.workers) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "spare-workers");
      AddSpareWorkers();
    });
  }
}

bool KeyedWorkers::AddWorker() {
  try {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
      WorkerLoop();
    });
  } catch (const std::system_error& error) {
    // The existing workers go on. When the next key is queued, a start is tried again.
    LOG_ERROR("{}: cannot start another worker: {}", options_.name, error.what());
    return false;
  }
  ++workers_;
  ++coming_workers_;
  return true;
}

void KeyedWorkers::RemoveWorker() {
  --workers_;
  const auto self = std::find_if(threads_.begin(), threads_.end(), [](const std::jthread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  // Stop has taken the threads, and joins them.
  if (self == threads_.end()) return;
  // A thread cannot join itself, so the next one that ends, or Stop, joins this one. The assignment
  // joins the one that ended before, which holds no lock any more.
  ended_ = std::move(*self);
  threads_.erase(self);
}

void KeyedWorkers::AddWantedWorker() {
  if (started_ && !stopping_ && !queue_.empty() && !HasFreeWorker() &&
      workers_ < options_.workers) {
    AddWorker();
  }
}

void KeyedWorkers::Stop() {
  std::list<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    first_due_.NotifyAll();
    idle_.NotifyAll();
    all_busy_.NotifyAll();
    threads.swap(threads_);
    threads.push_back(std::move(ended_));
  }
  threads.clear();  // joins
}

void KeyedWorkers::Enqueue(const std::string& key, Entry& entry, Time due) {
  if (entry.queued) {
    if (entry.due <= due) return;
    for (auto [it, end] = queue_.equal_range(entry.due); it != end; ++it) {
      if (it->second == key) {
        queue_.erase(it);
        break;
      }
    }
  }
  entry.queued = true;
  entry.due = due;
  // The share of a run ends with the group with which it began.
  if (options_.group && !entry.running) entry.group = options_.group(key);
  const auto place = queue_.emplace(due, key);
  // Only one thread is woken for one key, even if many are idle.
  if (!timekeeper_) {
    idle_.NotifyOne();
  } else if (due < awaited_) {
    first_due_.NotifyOne();
  }
  AddWantedWorker();
  // The thread that starts spare workers may be waiting for a key that is due later.
  if (place == queue_.begin() && !HasFreeWorker()) all_busy_.NotifyOne();
}

void KeyedWorkers::Add(const std::string& key) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  if (entry.backing_off && !entry.running) return;
  const Time now = steady_clock::now();
  if (queue_metrics_) queue_metrics_->NoteAdded(key, now);
  if (entry.running) {
    entry.again = true;
  } else {
    Enqueue(key, entry, now);
  }
}

void KeyedWorkers::AddNow(const std::string& key) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  entry.backing_off = false;
  const Time now = steady_clock::now();
  if (queue_metrics_) queue_metrics_->NoteAdded(key, now);
  if (entry.running) {
    entry.again = entry.again_now = true;
  } else {
    Enqueue(key, entry, now);
  }
}

void KeyedWorkers::AddAfter(const std::string& key, std::chrono::milliseconds delay) {
  MutexLock lock(mutex_);
  if (queue_metrics_) queue_metrics_->CountRetry();
  Enqueue(key, entries_[key], steady_clock::now() + delay);
}

bool KeyedWorkers::WaitIdle(std::chrono::milliseconds timeout) {
  const Time deadline = steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  while (running_ > 0 || (!queue_.empty() && queue_.begin()->first <= steady_clock::now())) {
    if (!settled_.WaitUntil(mutex_, deadline) && steady_clock::now() >= deadline) return false;
  }
  return true;
}

std::chrono::milliseconds KeyedWorkers::RetryDelay(const Outcome& outcome, int failures) const {
  if (outcome.delay.count() >= 0) return outcome.delay * (1 << std::min(failures, 4));
  auto delay = options_.retry_start;
  for (int i = 0; i < failures && delay < options_.retry_max; ++i) delay *= 2;
  return std::min(delay, options_.retry_max);
}

std::chrono::milliseconds KeyedWorkers::QueueRetry(const std::string& key, Entry& entry,
                                                   const Outcome& outcome) {
  auto delay = std::chrono::milliseconds(0);
  if (!std::exchange(entry.again_now, false)) delay = RetryDelay(outcome, entry.failures++);
  entry.backing_off = delay.count() > 0;
  entry.again = false;
  if (queue_metrics_) {
    queue_metrics_->CountRetry();
    if (entry.backing_off) queue_metrics_->NotePutOff(key);
  }
  Enqueue(key, entry, steady_clock::now() + delay);
  return delay;
}

void KeyedWorkers::SettleKey(const std::string& key, Entry& entry, const Outcome& outcome) {
  entry.failures = 0;
  entry.backing_off = false;
  if (entry.again) {
    entry.again = entry.again_now = false;
    Enqueue(key, entry, steady_clock::now());
  } else if (outcome.delay.count() >= 0) {
    if (queue_metrics_) queue_metrics_->CountRetry();
    Enqueue(key, entry, steady_clock::now() + outcome.delay);
  } else if (!entry.queued) {
    entries_.erase(key);
  }
}

void KeyedWorkers::FinishRun(const std::string& key, const Outcome& outcome) {
  std::chrono::milliseconds delay;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_[key];
    entry.running = false;
    if (queue_metrics_) queue_metrics_->NoteEnded(key, steady_clock::now());
    shares_.End(entry.group);
    ++coming_workers_;  // this worker, because it calls TakeKey next
    if (--running_ == 0) settled_.NotifyAll();
    if (outcome.status.ok()) return SettleKey(key, entry, outcome);
    delay = QueueRetry(key, entry, outcome);
  }
  LOG_WARNING("{}: {}: {}; again in {} ms", options_.name, Quote(key), ToString(outcome.status),
              delay.count());
}

std::chrono::milliseconds KeyedWorkers::NextRetryDelay(const std::string& key,
                                                       const Outcome& outcome) {
  MutexLock lock(mutex_);
  return RetryDelay(outcome, entries_[key].failures);
}

void KeyedWorkers::RunKey(const std::string& key) {
  std::optional<FlightScope> scope;
  if (options_.flight != nullptr) {
    scope.emplace(options_.flight, fmt::format("{} {}", options_.name, key));
  }
  const Outcome outcome = work_(key);
  // The outcome is recorded before FinishRun, because after it the next run of the key may begin on
  // another thread.
  if (outcome.status.ok()) {
    FlightScope::RemoveRetries();
  } else {
    FlightScope::RecordRetry(outcome.status, NextRetryDelay(key, outcome));
  }
  FinishRun(key, outcome);
}

bool KeyedWorkers::HasFreeWorker() const {
  return timekeeper_ || idle_workers_ > 0 || coming_workers_ > 0;
}

void KeyedWorkers::AddSpareWorkers() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (HasFreeWorker() || workers_ >= options_.max_workers) {
      all_busy_.Wait(mutex_);
      continue;
    }
    const Time now = steady_clock::now();
    const Time since = std::max(last_taken_, queue_.empty() ? now : queue_.begin()->first);
    if (now < since + options_.patience) {
      all_busy_.WaitUntil(mutex_, since + options_.patience);
      continue;
    }
    LOG_WARNING("{}: all {} workers are busy and {} keys wait: one more is started", options_.name,
                workers_, queue_.size());
    // If no thread can be started, the next try comes after the same time.
    if (!AddWorker()) all_busy_.WaitUntil(mutex_, now + options_.patience);
  }
}

std::multimap<KeyedWorkers::Time, std::string>::iterator KeyedWorkers::FindKey(Time now) {
  auto place = queue_.begin();
  for (; place != queue_.end() && place->first <= now; ++place) {
    if (!options_.group || shares_.MayBegin(entries_[place->second].group)) return place;
  }
  return queue_.end();
}

std::optional<std::string> KeyedWorkers::TakeKey() {
  MutexLock lock(mutex_);
  --coming_workers_;
  bool expired = false;  // this worker was idle for long
  while (!stopping_) {
    const Time now = steady_clock::now();
    const auto found = FindKey(now);
    if (found == queue_.end()) {
      const auto next = queue_.upper_bound(now);
      if (timekeeper_ || next == queue_.end()) {
        // Nothing needs this worker: another one keeps the time, or no key is due later. A key that
        // is due waits for its group, and so for a worker that is busy.
        if (expired) break;
        ++idle_workers_;
        // A wake-up may come together with the end of the time, so the queue is looked at again.
        expired = !idle_.WaitUntil(mutex_, now + options_.idle_time);
        --idle_workers_;
      } else {
        timekeeper_ = true;
        awaited_ = next->first;
        first_due_.WaitUntil(mutex_, awaited_);
        timekeeper_ = false;
      }
      continue;
    }
    std::string key = std::move(found->second);
    const Time due = found->first;
    Entry& entry = entries_[key];
    queue_.erase(found);
    entry.queued = false;
    if (entry.running) {
      // AddAfter queued the key, and it is due while the key runs.
      entry.again = true;
      if (queue_metrics_) queue_metrics_->NoteAdded(key, due);
      continue;
    }
    entry.running = true;
    entry.backing_off = false;
    ++running_;
    shares_.Begin(entry.group);
    last_taken_ = now;
    if (queue_metrics_) queue_metrics_->NoteBegun(key, due, now);
    // Another worker keeps the time, or takes a key of another group.
    if (!queue_.empty() && (!timekeeper_ || options_.group)) idle_.NotifyOne();
    AddWantedWorker();
    if (!HasFreeWorker()) all_busy_.NotifyOne();
    return key;
  }
  RemoveWorker();
  return std::nullopt;
}

void KeyedWorkers::CollectMetrics(Metrics::Gauges& gauges) {
  MutexLock lock(mutex_);
  if (!queue_metrics_) return;
  const Time now = steady_clock::now();
  // Keys whose delay has ended are not known to the metrics until they run.
  for (auto it = queue_.begin(); it != queue_.end() && it->first <= now; ++it) {
    queue_metrics_->NoteAdded(it->second, it->first);
  }
  queue_metrics_->Collect(gauges, now);
}

void KeyedWorkers::WorkerLoop() {
  while (const std::optional<std::string> key = TakeKey()) RunKey(*key);
}

}  // namespace berth::base
