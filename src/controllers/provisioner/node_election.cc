#include "controllers/provisioner/node_election.h"

#include <algorithm>

namespace berth::controllers::provisioner {

using base::MutexLock;
using std::chrono::milliseconds;

milliseconds NodeElection::GetWait(const std::string& uid, Time now) {
  MutexLock lock(mutex_);
  const auto [it, first] = turns_.try_emplace(uid);
  if (first) {
    std::uniform_int_distribution<int64_t> some(0, base_delay_.count());
    it->second.due = now + milliseconds(some(random_));
  }
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(it->second.due - now));
}

milliseconds NodeElection::WaitAfterLoss(const std::string& uid, Time now) const {
  MutexLock lock(mutex_);
  const auto turn = turns_.find(uid);
  if (turn == turns_.end() || turn->second.losses == 0) return milliseconds(0);
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(turn->second.due - now));
}

milliseconds NodeElection::NoteLoss(const std::string& uid, Time now) {
  MutexLock lock(mutex_);
  Turn& turn = turns_[uid];
  ++turn.losses;
  milliseconds longest = base_delay_;
  for (int i = 0; i < turn.losses && longest < max_delay_; ++i) longest *= 2;
  longest = std::min(longest, max_delay_);
  std::uniform_int_distribution<int64_t> some(longest.count() / 2, longest.count());
  const milliseconds delay(some(random_));
  turn.due = now + delay;
  return delay;
}

void NodeElection::Forget(const std::string& uid) {
  MutexLock lock(mutex_);
  turns_.erase(uid);
}

}  // namespace berth::controllers::provisioner
