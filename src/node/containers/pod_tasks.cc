#include "node/containers/pod_tasks.h"

#include <pthread.h>

#include <utility>

namespace berth::node {

bool PodTasks::RunTask(const std::string& key, std::function<void(std::stop_token)> task,
                       std::function<void()> after) {
  std::list<std::thread> finished;
  {
    base::MutexLock lock(mutex_);
    if (stopping_ || !keys_.insert(key).second) return false;
    queue_.push_back({key, std::move(task), std::move(after)});
    finished.swap(finished_);
    if (threads_ < max_threads_) {
      ++threads_;
      running_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "pod-task");
        RunWorker();
      });
    }
  }
  for (std::thread& thread : finished) thread.join();  // these threads take no lock any more
  return true;
}

bool PodTasks::IsBusy(const std::string& key) const {
  base::MutexLock lock(mutex_);
  return keys_.contains(key);
}

void PodTasks::RunWorker() {
  mutex_.Lock();
  while (!stopping_ && !queue_.empty()) {
    Task task = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    task.run(stop_.get_token());
    task.run = nullptr;  // destroys its captures before the key is free
    mutex_.Lock();
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
