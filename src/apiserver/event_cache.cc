#include "apiserver/event_cache.h"

#include "apiserver/formats/object_text.h"

namespace berth::apiserver {

using base::Json;

const Json& CachedChange::after() {
  base::MutexLock lock(mutex_);
  if (!after_) {
    after_ = std::make_unique<Json>(DecodeStored(*change_.record.value).value_or(Json::object()));
  }
  return *after_;
}

const Json& CachedChange::before() {
  base::MutexLock lock(mutex_);
  if (!before_) {
    before_ = std::make_unique<Json>(change_.previous
                                         ? DecodeStored(*change_.previous).value_or(Json::object())
                                         : Json::object());
  }
  return *before_;
}

store::Record CachedChange::ShownRecord(std::string_view type) const {
  store::Record shown = change_.record;
  if (type == "DELETED" && change_.type == store::Change::Type::kUpdated && change_.previous) {
    shown.value = change_.previous;
  }
  return shown;
}

http::Frame CachedChange::RenderEvent(std::string_view type, const Renderer& renderer) {
  const std::string key = fmt::format("{}/{}", type, renderer.event_key());
  {
    base::MutexLock lock(mutex_);
    if (const auto it = frames_.find(key); it != frames_.end()) return it->second;
  }
  http::Frame frame = http::MakeFrame(renderer.RenderEvent(type, ShownRecord(type), false));
  base::MutexLock lock(mutex_);
  return frames_.emplace(key, std::move(frame)).first->second;
}

std::shared_ptr<CachedChange> EventCache::FindOrAdd(const store::Change& change) {
  base::MutexLock lock(mutex_);
  auto& slot = latest_[static_cast<size_t>(change.record.revision) % latest_.size()];
  if (!slot || slot->change().record.revision != change.record.revision) {
    slot = std::make_shared<CachedChange>(change);
  }
  return slot;
}

}  // namespace berth::apiserver
