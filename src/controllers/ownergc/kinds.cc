// Discovers the kinds that the API serves, and watches them (owner_gc.h).
#include <algorithm>

#include "api/kind_info.h"
#include "base/log.h"
#include "controllers/ownergc/owner_gc.h"
#include "controllers/writes.h"

namespace berth::controllers::ownergc {

using base::MutexLock;
using std::chrono::steady_clock;

namespace {

bool IsWatched(const kube::ServedKind& kind) {
  // Events are not watched, because there are many, and they own nothing.
  if (&kind.info().stored() == &api::kinds::kEvent) return false;
  return kind.HasVerb("list") && kind.HasVerb("watch") && kind.HasVerb("delete");
}

// Whether a watch of `a` also serves `b`. If not, the kind is watched anew.
bool SameKind(const api::KindInfo& a, const api::KindInfo& b) {
  return a.version == b.version && a.kind == b.kind && a.namespaced == b.namespaced;
}

}  // namespace

OwnerGc::Outcome OwnerGc::Discover() {
  const auto found = kube::DiscoverKinds(context_.client);
  if (!found.ok()) return AfterApi(found.status());
  std::map<std::string, KindPtr> wanted;
  for (const KindPtr& kind : *found) {
    if (IsWatched(*kind)) wanted[kind->info().group_resource()] = kind;
  }
  std::vector<std::shared_ptr<Source>> ended;
  std::vector<KindPtr> added;
  {
    MutexLock lock(mutex_);
    kinds_ = *found;
    for (auto it = sources_.begin(); it != sources_.end();) {
      const auto now = wanted.find(it->first);
      if (now != wanted.end() && SameKind(now->second->info(), it->second.source->kind()->info())) {
        wanted.erase(now);
        ++it;
        continue;
      }
      ended.push_back(std::move(it->second.source));
      it = sources_.erase(it);
    }
    for (const auto& [name, kind] : wanted) added.push_back(kind);
  }
  // The lock is not held here, because Stop waits for the source's thread, which may wait for it.
  for (const auto& source : ended) {
    source->Stop();
    LOG_INFO("{} are not served any more", source->kind()->info().group_resource());
    MutexLock lock(mutex_);
    graph_.Forget(source->kind()->info());
  }
  for (const KindPtr& kind : added) AddSource(kind);
  {
    MutexLock lock(mutex_);
    discovered_ = true;
  }
  return Outcome::After(options_.discovery_interval);
}

void OwnerGc::AddSource(const KindPtr& kind) {
  const std::shared_ptr<Source> source =
      Source::Make(context_.client, kind, context_.informers.Find(kind->info()), *this);
  {
    MutexLock lock(mutex_);
    sources_[kind->info().group_resource()] = {source, steady_clock::now()};
  }
  source->Start();
}

bool OwnerGc::Synced() {
  const auto now = steady_clock::now();
  MutexLock lock(mutex_);
  return discovered_ && std::all_of(sources_.begin(), sources_.end(), [&](const auto& one) {
           const Watched& watched = one.second;
           return watched.source->synced() || now - watched.since >= options_.sync_timeout;
         });
}

KindPtr OwnerGc::FindKind(std::string_view api_version, std::string_view kind) {
  MutexLock lock(mutex_);
  for (const KindPtr& served : kinds_) {
    if (served->info().kind == kind && served->info().group == api::GroupOf(api_version))
      return served;
  }
  return nullptr;
}

std::shared_ptr<Source> OwnerGc::FindSource(const KindPtr& kind) {
  MutexLock lock(mutex_);
  const auto it = sources_.find(kind->info().group_resource());
  return it == sources_.end() ? nullptr : it->second.source;
}

}  // namespace berth::controllers::ownergc
