// The informers of a process, one per kind.
//
//   kube::Informers informers(client);
//   auto& claims = informers.Of<api::PersistentVolumeClaim>();
//   claims.AddHandler([&](const auto& change) { workers.Add(change.key); });
//   informers.Start();
//   RETURN_IF_ERROR(informers.WaitForSync(std::chrono::seconds(30)));
//
// Each informer (informer.h) is made by the first call of Of, OfOptional or OfDeferred for its
// kind, and lives as long as this object. The client, or the shared informers, are borrowed and
// outlive it. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::kube {

class Informers {
 public:
  explicit Informers(Client& client) : client_(&client) {}
  // Has views of the informers of `shared`, which are made and started when they are needed. This
  // is for a part of a process that ends and begins again while the copies stay.
  explicit Informers(Informers& shared) : shared_(&shared) {}
  ~Informers() { Stop(); }

  // Makes the informer of T read from `client` and not from that of the other kinds; it is not
  // shared. Call it before Of and OfOptional for T.
  template <typename T>
  void ReadFrom(std::shared_ptr<Client> client) ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    clients_[&T::kInfo] = std::move(client);
  }

  // Returns the informer of T, which lives as long as this object. Call it only before Start.
  template <typename T>
  Informer<T>& Of() ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    needed_.insert(&T::kInfo);
    return StartedLocked<T>();
  }
  // As Of, for a kind that the API may lack or forbid. In this case WaitForSync does not wait for
  // it. When the API offers the kind later, its objects come as added. Code that decides by the
  // absence of an object calls CheckListed first.
  template <typename T>
  Informer<T>& OfOptional() ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    return StartedLocked<T>();
  }
  // As OfOptional, for a kind that may never be needed, and then the API should not be asked for
  // it. Start does not start the informer, and WaitForSync does not wait for it, unless Of or
  // OfOptional was called for the kind, too. The caller starts it once the kind is needed
  // (InformerBase::Start); from then on WaitForSync waits for it as for that of OfOptional.
  template <typename T>
  Informer<T>& OfDeferred() ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    return OfLocked<T>();
  }

  // Returns the informer of a kind; nullptr if no informer was made for the kind.
  InformerBase* Find(const api::KindInfo& kind) const ABSL_LOCKS_EXCLUDED(mutex_);

  void Start();
  // Waits until all informers that were started are synced. DEADLINE_EXCEEDED: some are not; the
  // message names their kinds, and the reasons if they are known.
  Status WaitForSync(std::chrono::milliseconds timeout);
  void Stop();

 private:
  // The informer of T, which Start starts.
  template <typename T>
  Informer<T>& StartedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    at_start_.insert(&T::kInfo);
    if (shared_ != nullptr && !clients_.contains(&T::kInfo)) shared_->OfOptional<T>();
    return OfLocked<T>();
  }

  template <typename T>
  Informer<T>& OfLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto& slot = informers_[&T::kInfo];
    if (const auto own = clients_.find(&T::kInfo); slot == nullptr && own != clients_.end()) {
      slot = std::make_unique<Informer<T>>(*own->second);
    } else if (slot == nullptr && shared_ != nullptr) {
      slot = std::make_unique<Informer<T>>(shared_->OfDeferred<T>());
    } else if (slot == nullptr) {
      slot = std::make_unique<Informer<T>>(*client_);
    }
    return static_cast<Informer<T>&>(*slot);
  }

  bool Needs(const api::KindInfo& kind) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsDeferred(const api::KindInfo& kind) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<std::pair<const api::KindInfo*, InformerBase*>> All() const
      ABSL_LOCKS_EXCLUDED(mutex_);

  Client* const client_ = nullptr;  // null for views of shared_
  Informers* const shared_ = nullptr;
  mutable base::Mutex mutex_;
  std::map<const api::KindInfo*, std::shared_ptr<Client>> clients_ ABSL_GUARDED_BY(mutex_);
  std::map<const api::KindInfo*, std::unique_ptr<InformerBase>> informers_ ABSL_GUARDED_BY(mutex_);
  std::set<const api::KindInfo*> needed_ ABSL_GUARDED_BY(mutex_);
  // The kinds that Start starts, because Of or OfOptional was called for them.
  std::set<const api::KindInfo*> at_start_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
