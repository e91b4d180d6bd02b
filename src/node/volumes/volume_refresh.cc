#include "node/volumes/volume_refresh.h"

#include <iterator>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace berth::node {
namespace {

using base::MutexLock;
using InformerPtr = std::unique_ptr<kube::InformerBase>;

}  // namespace

std::vector<WatchedObject> ObjectsOf(const api::Pod& pod, const api::PodVolume& volume) {
  std::vector<WatchedObject> out;
  const auto add = [&](const api::KindInfo& kind, const std::string& name) {
    if (!name.empty()) out.push_back({.kind = &kind, .ns = pod.ns(), .name = name});
  };
  add(api::kinds::kConfigMap, volume.String({"configMap", "name"}));
  add(api::kinds::kSecret, volume.String({"secret", "secretName"}));
  for (const base::Json& source : base::json::Array(volume.json(), {"projected", "sources"})) {
    add(api::kinds::kConfigMap, base::json::String(source, {"configMap", "name"}));
    add(api::kinds::kSecret, base::json::String(source, {"secret", "name"}));
  }
  return out;
}

InformerPtr ObjectWatches::NewInformer(const WatchedObject& object) {
  auto informer = std::make_unique<kube::InformerBase>(
      client_, *object.kind,
      kube::InformerOptions{.ns = object.ns, .field_selector = "metadata.name=" + object.name},
      [](base::Json json) -> kube::InformerBase::ObjectPtr {
        return std::make_shared<const api::Object>(std::move(json));
      });
  informer->AddHandler([this, object](const kube::InformerBase::Change&) { NotifyOwners(object); });
  return informer;
}

void ObjectWatches::NotifyOwners(const WatchedObject& object) {
  std::set<std::string> owners;
  {
    MutexLock lock(mutex_);
    const auto found = watches_.find(object);
    if (found != watches_.end()) owners = found->second.owners;
  }
  for (const std::string& owner : owners) on_change_(owner);
}

bool ObjectWatches::StartWatch(const WatchedObject& object, Watch& watch) {
  watch.informer = NewInformer(object);
  try {
    watch.informer->Start();
    return true;
  } catch (const std::system_error& error) {
    LOG_ERROR("cannot watch {} {}: {}", object.kind->singular, base::Quote(object.name),
              error.what());
    return false;
  }
}

void ObjectWatches::ReportLimit(const WatchedObject& unwatched, const std::string& owner) {
  if (std::exchange(is_limit_reported_, true)) return;
  LOG_WARNING(
      "{} objects are watched, which is the limit: {} {} of volume {} and further ones are not "
      "watched, so their volumes get a change only when they are compared next",
      kMaxWatches, unwatched.kind->singular,
      base::Quote(api::ObjectKey(unwatched.ns, unwatched.name)), base::Quote(owner));
}

void ObjectWatches::WatchObjects(const std::string& owner,
                                 const std::vector<WatchedObject>& objects) {
  std::set<WatchedObject> wanted(objects.begin(), objects.end());
  if (wanted.size() > kMaxOfOwner) {
    wanted.erase(std::next(wanted.begin(), kMaxOfOwner), wanted.end());
  }
  std::vector<InformerPtr> ended;  // Stop waits for a handler, which may need the lock
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    for (auto it = watches_.begin(); it != watches_.end();) {
      if (!wanted.contains(it->first)) it->second.owners.erase(owner);
      if (it->second.owners.empty()) {
        ended.push_back(std::move(it->second.informer));
        it = watches_.erase(it);
      } else {
        ++it;
      }
    }
    if (watches_.size() < kMaxWatches) is_limit_reported_ = false;
    for (const WatchedObject& object : wanted) {
      auto found = watches_.find(object);
      if (found == watches_.end()) {
        if (watches_.size() >= kMaxWatches) {
          ReportLimit(object, owner);
          continue;
        }
        Watch watch;
        if (!StartWatch(object, watch)) break;
        found = watches_.emplace(object, std::move(watch)).first;
      }
      found->second.owners.insert(owner);
    }
  }
  for (InformerPtr& informer : ended) informer->Stop();
}

size_t ObjectWatches::CountObjects() const {
  MutexLock lock(mutex_);
  return watches_.size();
}

void ObjectWatches::Stop() {
  std::map<WatchedObject, Watch> watches;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    watches.swap(watches_);
  }
  for (auto& [object, watch] : watches) watch.informer->Stop();
}

}  // namespace berth::node
