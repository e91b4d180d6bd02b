#include "kube/informers/informers.h"

namespace berth::kube {

using base::MutexLock;
using base::StatusCode;

InformerBase* Informers::Find(const api::KindInfo& kind) const {
  MutexLock lock(mutex_);
  const auto it = informers_.find(&kind);
  return it == informers_.end() ? nullptr : it->second.get();
}

bool Informers::Needs(const api::KindInfo& kind) const {
  MutexLock lock(mutex_);
  return needed_.contains(&kind);
}

bool Informers::IsDeferred(const api::KindInfo& kind) const {
  MutexLock lock(mutex_);
  return !at_start_.contains(&kind);
}

std::vector<std::pair<const api::KindInfo*, InformerBase*>> Informers::All() const {
  MutexLock lock(mutex_);
  std::vector<std::pair<const api::KindInfo*, InformerBase*>> out;
  out.reserve(informers_.size());
  for (const auto& [kind, informer] : informers_) out.emplace_back(kind, informer.get());
  return out;
}

void Informers::Start() {
  for (const auto& [kind, informer] : All()) {
    if (!IsDeferred(*kind)) informer->Start();
  }
}

void Informers::Stop() {
  for (const auto& [kind, informer] : All()) informer->Stop();
}

Status Informers::WaitForSync(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string missing;
  for (const auto& [kind, informer] : All()) {
    if (IsDeferred(*kind) && !informer->started()) continue;
    if (Needs(*kind) ? informer->WaitForSync(deadline) : informer->WaitForSyncOrRefusal(deadline)) {
      continue;
    }
    if (!missing.empty()) missing += ", ";
    missing += kind->group_resource();
    if (const Status why = informer->list_failure(); !why.ok()) {
      missing += fmt::format(" ({})", base::ToString(why));
    }
  }
  if (missing.empty()) return base::OkStatus();
  return base::Error(StatusCode::kDeadlineExceeded, "wait for the API: not listed within {} ms: {}",
                     timeout.count(), missing);
}

}  // namespace berth::kube
