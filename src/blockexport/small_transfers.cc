#include "blockexport/small_transfers.h"

#include <cstdlib>

namespace berth::blockexport {

using base::MutexLock;
using std::chrono::steady_clock;

void SmallTransfers::Free::operator()(char* memory) const { std::free(memory); }

SmallTransfers::SmallTransfers(Answer answer)
    : answer_(answer),
      memory_(static_cast<char*>(std::aligned_alloc(kBufferAlignment, kMostTransfers * kLargest))) {
  if (memory_ == nullptr) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].owner = this;
    slots_[i].memory = memory_.get() + i * kLargest;
    slots_[i].ended = [](Transfer& transfer, int error) {
      auto& slot = static_cast<Slot&>(transfer);
      slot.owner->answer_(slot.request, slot, error);
      slot.owner->ReturnSlot(slot);
    };
    free_.push_back(&slots_[i]);
  }
}

SmallTransfers::Slot* SmallTransfers::TakeSlot() {
  MutexLock lock(mutex_);
  if (free_.empty()) return nullptr;
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

void SmallTransfers::ReturnSlot(Slot& slot) {
  MutexLock lock(mutex_);
  free_.push_back(&slot);
  if (free_.size() == slots_.size()) returned_.NotifyAll();
}

bool SmallTransfers::BeginIn(Slot& slot, BlockStore& store, fuse_req_t request) {
  slot.request = request;
  if (store.Begin(slot)) return true;
  ReturnSlot(slot);
  return false;
}

bool SmallTransfers::BeginRead(BlockStore& store, fuse_req_t request, int64_t offset, size_t size) {
  Slot* slot = size > kLargest ? nullptr : TakeSlot();
  if (slot == nullptr) return false;
  slot->writes = false;
  slot->offset = offset;
  slot->data = {slot->memory, size};
  return BeginIn(*slot, store, request);
}

bool SmallTransfers::AwaitAll(std::chrono::milliseconds within) {
  const auto deadline = steady_clock::now() + within;
  MutexLock lock(mutex_);
  while (memory_ != nullptr && free_.size() < slots_.size()) {
    if (!returned_.WaitUntil(mutex_, deadline) && free_.size() < slots_.size()) return false;
  }
  return true;
}

}  // namespace berth::blockexport
