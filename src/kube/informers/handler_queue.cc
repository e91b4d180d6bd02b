#include "kube/informers/handler_queue.h"

#include <utility>

namespace berth::kube {

size_t HandlerQueue::Add(Handler handler) {
  handlers_[next_number_] = std::make_shared<Handler>(std::move(handler));
  return next_number_++;
}

void HandlerQueue::Remove(const std::vector<size_t>& numbers) {
  for (const size_t number : numbers) handlers_.erase(number);
}

void HandlerQueue::AddChange(Change change, uint32_t round) {
  const size_t end = round == round_ ? new_end_ : new_begin_;
  if (!handlers_.empty() && end > 0) waiting_.push_back({end, std::move(change)});
}

void HandlerQueue::AddSync() { waiting_.push_back({.sync = true}); }

bool HandlerQueue::TakeDelivery(Objects& objects, Delivery& delivery) {
  if (TakePresent(objects, delivery)) return true;
  if (waiting_.empty()) return false;
  Waiting& first = waiting_.front();
  delivery = {HandlersBetween(0, first.end), std::move(first.change), first.sync};
  waiting_.pop_front();
  return true;
}

bool HandlerQueue::TakePresent(Objects& objects, Delivery& delivery) {
  while (true) {
    while (!round_keys_.empty()) {
      std::string key = std::move(round_keys_.back());
      round_keys_.pop_back();
      ObjectPtr object = objects.TakeForRound(key, round_);
      if (object == nullptr) continue;
      delivery = {HandlersBetween(new_begin_, new_end_),
                  {std::move(key), nullptr, std::move(object)}};
      return true;
    }
    round_keys_.shrink_to_fit();
    new_begin_ = new_end_;
    if (new_end_ == next_number_) return false;
    new_end_ = next_number_;
    ++round_;
    round_keys_ = objects.ListKeys();
  }
}

std::vector<std::shared_ptr<HandlerQueue::Handler>> HandlerQueue::HandlersBetween(
    size_t begin, size_t end) const {
  std::vector<std::shared_ptr<Handler>> found;
  const auto last = handlers_.lower_bound(end);
  for (auto it = handlers_.lower_bound(begin); it != last; ++it) found.push_back(it->second);
  return found;
}

}  // namespace berth::kube
