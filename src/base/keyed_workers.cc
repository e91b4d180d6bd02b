#include "base/keyed_workers.h"

#include <pthread.h>

#include "base/flight.h"
#include "base/log.h"

namespace berth::base {

using std::chrono::steady_clock;

KeyedWorkers::KeyedWorkers(Options options, Work work)
    : options_(std::move(options)), work_(std::move(work)) {}

KeyedWorkers::~KeyedWorkers() { Stop(); }

void KeyedWorkers::Start() {
  for (int i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
      WorkerLoop();
    });
  }
}

void KeyedWorkers::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  threads_.clear();
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
  queue_.emplace(due, key);
  changed_.NotifyAll();
}

void KeyedWorkers::Add(const std::string& key) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  if (entry.running) {
    entry.again = true;
  } else if (!entry.backing_off) {
    Enqueue(key, entry, steady_clock::now());
  }
}

void KeyedWorkers::AddNow(const std::string& key) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[key];
  entry.backing_off = false;
  if (entry.running) {
    entry.again = entry.again_now = true;
  } else {
    Enqueue(key, entry, steady_clock::now());
  }
}

void KeyedWorkers::AddAfter(const std::string& key, std::chrono::milliseconds delay) {
  MutexLock lock(mutex_);
  Enqueue(key, entries_[key], steady_clock::now() + delay);
}

bool KeyedWorkers::WaitIdle(std::chrono::milliseconds timeout) {
  const Time deadline = steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  while (running_ > 0 || (!queue_.empty() && queue_.begin()->first <= steady_clock::now())) {
    if (!changed_.WaitUntil(mutex_, deadline) && steady_clock::now() >= deadline) return false;
  }
  return true;
}

std::chrono::milliseconds KeyedWorkers::Backoff(int failures) const {
  auto delay = options_.retry_start;
  for (int i = 1; i < failures && delay < options_.retry_max; ++i) delay *= 2;
  return std::min(delay, options_.retry_max);
}

std::chrono::milliseconds KeyedWorkers::NextBackoff(const std::string& key) {
  MutexLock lock(mutex_);
  return Backoff(entries_[key].failures + 1);
}

void KeyedWorkers::Finish(const std::string& key, const Outcome& outcome) {
  std::chrono::milliseconds delay = outcome.delay;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_[key];
    entry.running = false;
    --running_;
    changed_.NotifyAll();
    if (!outcome.status.ok()) {
      delay = std::exchange(entry.again_now, false) ? std::chrono::milliseconds(0)
                                                    : Backoff(++entry.failures);
      entry.backing_off = delay.count() > 0;
      entry.again = false;
      Enqueue(key, entry, steady_clock::now() + delay);
    } else {
      entry.failures = 0;
      entry.backing_off = false;
      if (entry.again) {
        entry.again = entry.again_now = false;
        Enqueue(key, entry, steady_clock::now());
      } else if (delay.count() >= 0) {
        Enqueue(key, entry, steady_clock::now() + delay);
      } else if (!entry.queued) {
        entries_.erase(key);
      }
    }
  }
  if (!outcome.status.ok()) {
    LOG_WARNING("{}: {}: {}; again in {} ms", options_.name, Quote(key), ToString(outcome.status),
                delay.count());
  }
}

void KeyedWorkers::Run(const std::string& key) {
  std::optional<FlightScope> scope;
  if (options_.flight != nullptr) {
    scope.emplace(options_.flight, fmt::format("{} {}", options_.name, key));
  }
  const Outcome outcome = work_(key);
  // Before the next run of the key may begin, on another thread.
  if (outcome.status.ok()) {
    FlightScope::Settled();
  } else {
    FlightScope::Retry(outcome.status, NextBackoff(key));
  }
  Finish(key, outcome);
}

void KeyedWorkers::WorkerLoop() {
  while (true) {
    std::string key;
    {
      MutexLock lock(mutex_);
      while (true) {
        if (stopping_) return;
        if (queue_.empty()) {
          changed_.Wait(mutex_);
          continue;
        }
        const auto first = queue_.begin();
        if (first->first > steady_clock::now()) {
          const Time due = first->first;
          changed_.WaitUntil(mutex_, due);
          continue;
        }
        key = first->second;
        Entry& entry = entries_[key];
        queue_.erase(first);
        entry.queued = false;
        if (entry.running) {
          // A delayed addition came due while the key runs.
          entry.again = true;
          continue;
        }
        entry.running = true;
        entry.backing_off = false;
        ++running_;
        break;
      }
    }
    Run(key);
  }
}

}  // namespace berth::base
