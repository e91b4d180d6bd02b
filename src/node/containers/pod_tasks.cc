#include "node/containers/pod_tasks.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace berth::node {

bool PodTasks::RunTask(const std::string& key, const std::string& group,
                       std::function<void(std::stop_token)> task, std::function<void()> after) {
  std::list<std::thread> finished;
  {
    base::MutexLock lock(mutex_);
    if (stopping_ || !keys_.insert(key).second) return false;
    queue_.push_back({key, group, std::move(task), std::move(after)});
    finished.swap(finished_);
    if (!AddThread()) {
      queue_.pop_back();
      keys_.erase(key);
      return false;
    }
  }
  for (std::thread& thread : finished) thread.join();  // these threads take no lock any more
  return true;
}

std::deque<PodTasks::Task>::iterator PodTasks::FindTask() {
  return std::find_if(queue_.begin(), queue_.end(),
                      [this](const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return shares_.MayBegin(task.group);
                      });
}

bool PodTasks::AddThread() {
  if (threads_ >= max_threads_ || FindTask() == queue_.end()) return true;
  try {
    running_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "pod-task");
      RunWorker();
    });
  } catch (const std::system_error& error) {
    LOG_ERROR("cannot start another thread for the tasks of pods: {}", error.what());
    return threads_ > 0;  // they run the task later
  }
  ++threads_;
  return true;
}

bool PodTasks::IsBusy(const std::string& key) const {
  base::MutexLock lock(mutex_);
  return keys_.contains(key);
}

void PodTasks::RunWorker() {
  mutex_.Lock();
  while (!stopping_) {
    const auto found = FindTask();
    if (found == queue_.end()) break;
    Task task = std::move(*found);
    queue_.erase(found);
    shares_.Begin(task.group);
    // The end of a task can let one of several groups go on.
    AddThread();
    mutex_.Unlock();
    task.run(stop_.get_token());
    task.run = nullptr;  // destroys its captures before the key is free
    mutex_.Lock();
    shares_.End(task.group);
    keys_.erase(task.key);
    if (task.after) {
      mutex_.Unlock();
      task.after();
      mutex_.Lock();
    }
  }
  --threads_;
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    if (it->get_id() != std::this_thread::get_id()) continue;
    finished_.splice(finished_.end(), running_, it);
    break;
  }
  changed_.NotifyAll();
  mutex_.Unlock();
}

void PodTasks::Stop() {
  stop_.request_stop();
  std::list<std::thread> finished;
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    queue_.clear();
    while (threads_ > 0) changed_.Wait(mutex_);
    finished.swap(finished_);
  }
  for (std::thread& thread : finished) thread.join();
}

}  // namespace berth::node
