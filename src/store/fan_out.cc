#include "store/fan_out.h"

#include <pthread.h>

#include <algorithm>

#include "base/log.h"

namespace berth::store {

FanOut::FanOut(Revision delivered, ReadChanges read_changes)
    : read_changes_(std::move(read_changes)), delivered_(delivered) {
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "store-fanout");
    DeliveryLoop();
  });
  thread_id_ = thread_.get_id();
}

FanOut::~FanOut() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void FanOut::QueueChanges(std::vector<Change> changes, Revision revision) {
  base::MutexLock lock(mutex_);
  groups_.push_back({std::move(changes), revision});
  changed_.NotifyAll();
}

std::shared_ptr<void> FanOut::AddWatcher(std::string prefix, Revision from,
                                         std::shared_ptr<Watcher> watcher) {
  auto member = std::make_shared<Member>();
  member->prefix = std::move(prefix);
  member->seen = from;
  member->watcher = std::move(watcher);
  {
    base::MutexLock lock(mutex_);
    members_.push_back(member);
    added_ = true;
    changed_.NotifyAll();
  }
  return std::shared_ptr<void>(nullptr, [this, member](void*) { RemoveMember(member); });
}

void FanOut::RemoveMember(const std::shared_ptr<Member>& member) {
  base::MutexLock lock(mutex_);
  member->gone = true;
  std::erase(members_, member);
  changed_.NotifyAll();
  if (std::this_thread::get_id() == thread_id_) return;  // called by the watcher itself
  while (delivering_) changed_.Wait(mutex_);
}

void FanOut::WaitUntilCaughtUp() {
  base::MutexLock lock(mutex_);
  const std::vector<std::shared_ptr<Member>> behind = members_;
  const auto is_behind = [](const auto& member) { return !member->caught_up && !member->gone; };
  while (!stopping_ && std::any_of(behind.begin(), behind.end(), is_behind)) {
    changed_.Wait(mutex_);
  }
}

void FanOut::DeliverMissed(const std::shared_ptr<Member>& member, Revision to) {
  if (member->seen < to) {
    const Status read = read_changes_(member->prefix, member->seen, to, [&](const Change& change) {
      if (!member->gone) member->watcher->OnChange(change);
    });
    if (!read.ok()) return DropMember(member, read);
    member->seen = to;
  }
  if (!member->gone) member->watcher->OnProgress(member->seen);
}

void FanOut::DropMember(const std::shared_ptr<Member>& member, const Status& why) {
  LOG_ERROR("watch of {}: {}", base::Quote(member->prefix), base::ToString(why));
  {
    base::MutexLock lock(mutex_);
    if (member->gone) return;  // its owner has removed it, and wants no call
    member->gone = true;
    std::erase(members_, member);
    changed_.NotifyAll();
  }
  member->watcher->OnLost(why);
}

// Each change goes to all members before the next change, because members can then share the result
// of processing a change.
void FanOut::DeliverGroup(const Group& group, const std::vector<std::shared_ptr<Member>>& members) {
  for (const Change& change : group.changes) {
    for (const auto& member : members) {
      if (change.record.revision <= member->seen || member->gone) continue;
      if (change.record.key.starts_with(member->prefix)) member->watcher->OnChange(change);
    }
  }
  for (const auto& member : members) {
    member->seen = std::max(member->seen, group.revision);
    if (!member->gone) member->watcher->OnProgress(group.revision);
  }
}

void FanOut::DeliveryLoop() {
  while (true) {
    std::deque<Group> groups;
    std::vector<std::shared_ptr<Member>> members;
    Revision delivered;
    {
      base::MutexLock lock(mutex_);
      delivering_ = false;
      changed_.NotifyAll();
      while (groups_.empty() && !added_ && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
      groups.swap(groups_);
      members = members_;
      added_ = false;
      delivered = delivered_;
      if (!groups.empty()) delivered_ = groups.back().revision;
      delivering_ = true;
    }
    for (const auto& member : members) {
      if (member->caught_up) continue;
      DeliverMissed(member, delivered);
      member->caught_up = true;
    }
    for (const Group& group : groups) DeliverGroup(group, members);
  }
}

}  // namespace berth::store
