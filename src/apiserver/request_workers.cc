#include "apiserver/request_workers.h"

#include <algorithm>
#include <memory>

#include "apiserver/access/authorization.h"

namespace berth::apiserver {

RequestWorkers::RequestWorkers(size_t threads)
    : threads_(threads), pool_({.name = "api-worker", .max_threads = threads}) {}

RequestWorkers::Sender RequestWorkers::FindSender(const http::Request& request) {
  if (request.known == nullptr) return {Share::kOther, request.address};
  Share share = Share::kOther;
  for (const std::string& group : request.known->groups) {
    if (group == kAdministrators) return {Share::kOwner, request.known->name};
    if (group == kNodes || group == kBlockAgents) share = Share::kNode;
  }
  return {share, request.known->name};
}

bool RequestWorkers::Post(Task task) { return PostFor({Share::kOwner, ""}, std::move(task)); }

bool RequestWorkers::Post(const http::Request& request, Task task) {
  return PostFor(FindSender(request), std::move(task));
}

bool RequestWorkers::PostFor(Sender sender, Task task) {
  std::shared_ptr<Started> started;
  uint64_t number = 0;
  {
    base::MutexLock lock(mutex_);
    if (stopping_) return false;
    Queue& queue = queues_[sender];
    if (queue.waiting.empty()) Of(sender.first).turns.push_back(sender);
    number = ++last_number_;
    queue.waiting.push_back({number, std::move(task)});
    // One at most can start, because all others that may run have started before.
    std::optional<Started> next = StartNext();
    if (!next) return true;
    started = std::make_shared<Started>(*std::move(next));
  }
  return pool_.Post([this, started] { RunTasks(std::move(*started)); }) ||
         TakeBack(*started, sender, number);
}

bool RequestWorkers::TakeBack(Started& refused, const Sender& sender, uint64_t number) {
  Task dropped;  // destroyed without the lock
  base::MutexLock lock(mutex_);
  if (refused.number != number && !stopping_) {
    // It was accepted before, so it waits for the next Post.
    auto& waiting = queues_.at(refused.sender).waiting;
    if (waiting.empty()) Of(refused.sender.first).turns.push_front(refused.sender);
    waiting.push_front({refused.number, std::move(refused.task)});
  }
  CountEnd(refused.sender);
  if (refused.number == number) return false;
  const auto queue = queues_.find(sender);
  if (queue == queues_.end()) return true;  // another thread has run it, or Stop has dropped it
  auto& waiting = queue->second.waiting;
  const auto own = std::find_if(waiting.begin(), waiting.end(),
                                [&](const Numbered& one) { return one.number == number; });
  if (own == waiting.end()) return true;
  dropped = std::move(own->task);
  waiting.erase(own);
  if (waiting.empty()) std::erase(Of(sender.first).turns, sender);
  EraseIfUnused(sender);
  return false;
}

size_t RequestWorkers::MostOfSender(Share share) const {
  switch (share) {
    case Share::kOwner:
      return threads_;
    case Share::kNode:
      return threads_ / 2;
    case Share::kOther:
      return std::max<size_t>(threads_ / 4, 1);
  }
  return 0;
}

bool RequestWorkers::MayRun(Share share) const {
  const size_t others = Of(Share::kOther).running;
  const size_t guests = others + Of(Share::kNode).running;
  if (guests + Of(Share::kOwner).running >= threads_) return false;
  switch (share) {
    case Share::kOwner:
      return true;
    case Share::kNode:
      return guests + 1 < threads_;
    case Share::kOther:
      return guests + 1 < threads_ && others < threads_ / 2;
  }
  return false;
}

std::optional<RequestWorkers::Started> RequestWorkers::StartNext() {
  for (size_t i = 0; i < shares_.size(); ++i) {
    const auto share = static_cast<Share>((next_share_ + i) % shares_.size());
    if (!MayRun(share)) continue;
    const size_t most = MostOfSender(share);
    auto& turns = Of(share).turns;
    auto turn = turns.begin();
    while (turn != turns.end() && queues_.at(*turn).running >= most) ++turn;
    if (turn == turns.end()) continue;
    Sender sender = std::move(*turn);
    turns.erase(turn);
    Queue& queue = queues_.at(sender);
    Numbered first = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.running;
    ++Of(share).running;
    if (!queue.waiting.empty()) turns.push_back(sender);
    next_share_ = (static_cast<size_t>(share) + 1) % shares_.size();
    return Started{std::move(sender), first.number, std::move(first.task)};
  }
  return std::nullopt;
}

void RequestWorkers::RunTasks(Started started) {
  for (std::optional<Started> next = std::move(started); next;) {
    next->task();
    next->task = nullptr;  // what it holds is destroyed without the lock
    base::MutexLock lock(mutex_);
    CountEnd(next->sender);
    next = StartNext();
  }
}

void RequestWorkers::CountEnd(const Sender& sender) {
  --Of(sender.first).running;
  --queues_.at(sender).running;
  EraseIfUnused(sender);
}

void RequestWorkers::EraseIfUnused(const Sender& sender) {
  const auto queue = queues_.find(sender);
  if (queue->second.running == 0 && queue->second.waiting.empty()) queues_.erase(queue);
}

void RequestWorkers::Stop() {
  std::map<Sender, Queue> dropped;  // destroyed without the lock, because captures may call Post
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    for (ShareState& share : shares_) share.turns.clear();
    for (auto& [sender, queue] : queues_) dropped[sender].waiting.swap(queue.waiting);
  }
  dropped.clear();
  pool_.Stop();
}

}  // namespace berth::apiserver
