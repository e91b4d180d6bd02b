#include "kube/informers/informer.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "api/selector.h"
#include "base/log.h"
#include "kube/informers/handler_queue.h"
#include "kube/informers/object_index.h"
#include "kube/informers/packed_objects.h"

namespace berth::kube {

using base::MutexLock;
using base::StatusCode;

namespace {

// After a list of more objects than this, free memory is returned to the kernel.
constexpr size_t kManyObjects = 5000;

std::string KeyOf(const Json& object) {
  return api::ObjectKey(base::json::String(object, {"metadata", "namespace"}),
                        base::json::String(object, {"metadata", "name"}));
}

// Whether the API answered that it lacks the kind or forbids to list it.
bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied;
}

std::string VersionOf(const Json& object) {
  return base::json::String(object, {"metadata", "resourceVersion"});
}

}  // namespace

class InformerBase::Impl : Reflector::Sink, HandlerQueue::Objects {
 public:
  Impl(Client& client, const api::KindInfo& kind, InformerOptions options, Factory factory)
      : kind_(kind),
        options_(std::move(options)),
        factory_(std::move(factory)),
        packed_(factory_),
        reflector_(client, kind_, options_, *this) {
    auto labels = api::LabelSelector::Parse(options_.label_selector);
    auto fields = api::FieldSelector::Parse(kind_, options_.field_selector);
    // The API would refuse the selector at each list, so it is reported once here as well.
    for (const Status& status : {base::AsStatus(labels), base::AsStatus(fields)}) {
      if (!status.ok()) LOG_ERROR("informer of {}: {}", kind_.plural, base::ToString(status));
    }
    if (labels.ok()) labels_ = *std::move(labels);
    if (fields.ok()) fields_ = *std::move(fields);
  }

  // Returns the handler's number, for RemoveHandlers.
  size_t AddHandler(Handler handler) {
    size_t number = 0;
    {
      MutexLock lock(mutex_);
      number = queue_.Add(std::move(handler));
    }
    DeliverChanges();
    return number;
  }

  // Removes the handlers, and returns when none of them runs.
  void RemoveHandlers(const std::vector<size_t>& numbers) {
    MutexLock lock(mutex_);
    queue_.Remove(numbers);
    const uint64_t running = deliveries_;
    while (dispatching_ && deliveries_ == running) delivered_.Wait(mutex_);
  }

  void AddIndex(const std::string& name, IndexFunction function) {
    MutexLock lock(mutex_);
    Index& index = indexes_.try_emplace(name, packed_.memory()).first->second;
    if (index.users++ > 0) return;
    index.function = std::move(function);
    for (const auto& [key, kept] : objects_) {
      for (const std::string& value : index.function(*packed_.Get(kept.object))) {
        index.entries.Insert(value, key);
      }
    }
  }

  void ReleaseIndex(const std::string& name) {
    MutexLock lock(mutex_);
    const auto it = indexes_.find(name);
    if (it != indexes_.end() && --it->second.users == 0) indexes_.erase(it);
  }

  void Start() {
    MutexLock lock(start_mutex_);
    if (stopped_) return;
    started_ = true;
    reflector_.Start();
  }
  bool started() const { return started_; }
  void Stop() {
    MutexLock lock(start_mutex_);
    stopped_ = true;
    reflector_.Stop();
  }

  bool synced() const {
    MutexLock lock(mutex_);
    return synced_;
  }

  bool WaitForSync(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!synced_) {
      if (!sync_changed_.WaitUntil(mutex_, deadline)) return synced_;
    }
    return true;
  }

  bool WaitForSyncOrRefusal(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!synced_ && !IsRefusal(list_failure_)) {
      if (!sync_changed_.WaitUntil(mutex_, deadline)) return synced_ || IsRefusal(list_failure_);
    }
    return true;
  }

  Status list_failure() const {
    MutexLock lock(mutex_);
    return list_failure_;
  }

  ObjectPtr Find(const std::string& key) const {
    MutexLock lock(mutex_);
    const auto it = objects_.find(std::string_view(key));
    return it == objects_.end() ? nullptr : packed_.Get(it->second.object);
  }

  std::vector<ObjectPtr> All() const {
    MutexLock lock(mutex_);
    std::vector<ObjectPtr> out;
    out.reserve(objects_.size());
    for (const auto& [key, kept] : objects_) out.push_back(packed_.Get(kept.object));
    return out;
  }

  std::vector<std::string> Keys() const {
    MutexLock lock(mutex_);
    return KeysLocked();
  }

  std::vector<ObjectPtr> FindByIndex(const std::string& index, const std::string& value) const {
    MutexLock lock(mutex_);
    std::vector<ObjectPtr> out;
    const auto it = indexes_.find(index);
    if (it == indexes_.end()) return out;
    const auto& [users, function, entries] = it->second;
    for (const ObjectIndex::Key* key : entries.FindKeys(value)) {
      ObjectPtr object = packed_.Get(objects_.find(*key)->second.object);
      const std::vector<std::string> values = function(*object);
      // Another value may have the same hash.
      if (std::find(values.begin(), values.end(), value) != values.end()) {
        out.push_back(std::move(object));
      }
    }
    return out;
  }

  void Observe(Json object) {
    if (!IsSelected(object)) return;
    {
      MutexLock lock(mutex_);
      const std::string key = KeyOf(object);
      // An absent object that is not newer than the watch's last event was deleted meanwhile.
      const bool absent = !objects_.contains(std::string_view(key));
      if (absent && CompareVersions(VersionOf(object), version_) <= 0) return;
      if (PutLocked(key, std::move(object)) && listing_) observed_.insert(key);
    }
    DeliverChanges();
  }

 private:
  struct Index {
    explicit Index(std::pmr::memory_resource* memory) : entries(memory) {}

    int users = 0;
    IndexFunction function;
    ObjectIndex entries;
  };
  struct KeyHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Kept {
    PackedObject object;
    uint32_t list = 0;   // the last list that had it
    uint32_t round = 0;  // see HandlerQueue
  };

  bool IsSelected(const Json& object) const {
    const api::Object view(Json{{"metadata", base::json::Map(object, {"metadata"})}});
    return (options_.ns.empty() || view.ns() == options_.ns) && labels_.Matches(view.labels()) &&
           fields_.Matches(object);
  }

  std::vector<std::string> KeysLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> out;
    out.reserve(objects_.size());
    for (const auto& [key, kept] : objects_) out.emplace_back(key);
    return out;
  }

  // The queue asks for these while the lock is held.
  std::vector<std::string> ListKeys() override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return KeysLocked();
  }
  ObjectPtr TakeForRound(const std::string& key,
                         uint32_t round) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto it = objects_.find(std::string_view(key));
    if (it == objects_.end() || std::exchange(it->second.round, round) == round) return nullptr;
    return packed_.Get(it->second.object);
  }

  // Updates the indexes. `key` is the key in objects_, because the indexes point to it.
  void IndexLocked(const ObjectIndex::Key& key, const ObjectPtr& before, const ObjectPtr& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto& [name, index] : indexes_) {
      if (before != nullptr) {
        for (const std::string& value : index.function(*before)) {
          index.entries.Erase(value, key);
        }
      }
      if (after != nullptr) {
        for (const std::string& value : index.function(*after)) {
          index.entries.Insert(value, key);
        }
      }
    }
  }

  // Stores `json` unless the stored object is the same or, if `older_too` is false, newer. Returns
  // whether it stored it.
  bool PutLocked(std::string_view key, Json json, bool older_too = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto place = objects_.find(key);
    const bool added = place == objects_.end();
    if (added) place = objects_.emplace(key, Kept{.round = queue_.round()}).first;
    const int newer = added ? 1 : CompareVersions(VersionOf(json), place->second.object.version());
    if (newer == 0 || (newer < 0 && !older_too)) return false;
    // Only the server needs managedFields, and they are often half of an object's size.
    base::json::Remove(json, {"metadata", "managedFields"});
    ObjectPtr before = added ? nullptr : packed_.Get(place->second.object);
    ObjectPtr after = factory_(std::move(json));
    place->second.object = packed_.KeepObject(*after);
    IndexLocked(place->first, before, after);
    queue_.AddChange({std::string(key), std::move(before), std::move(after)}, place->second.round);
    return true;
  }

  // Removes `key` unless the stored object is newer than `version` and `newer_too` is false.
  void RemoveLocked(std::string_view key, std::string_view version, bool newer_too = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = objects_.find(key);
    if (it == objects_.end()) return;
    if (!newer_too && CompareVersions(it->second.object.version(), version) > 0) return;
    ObjectPtr before = packed_.Get(it->second.object);
    IndexLocked(it->first, before, nullptr);
    const uint32_t round = it->second.round;
    objects_.erase(it);
    queue_.AddChange({std::string(key), std::move(before), nullptr}, round);
  }

  // Calls handlers for the pending changes. Returns at once if a caller of this function, on this
  // thread's stack or on another thread, is doing that, because changes reach handlers one after
  // the other and in order.
  void DeliverChanges() {
    while (true) {
      HandlerQueue::Delivery delivery;
      {
        MutexLock lock(mutex_);
        if (dispatching_ || !queue_.TakeDelivery(*this, delivery)) return;
        dispatching_ = true;
        if (delivery.sync) {
          synced_ = true;
          sync_changed_.NotifyAll();
        }
      }
      for (const auto& handler : delivery.handlers) (*handler)(delivery.change);
      MutexLock lock(mutex_);
      dispatching_ = false;
      ++deliveries_;
      delivered_.NotifyAll();
    }
  }

  void OnListBegin() override {
    MutexLock lock(mutex_);
    ++list_;
    observed_.clear();
    listing_ = true;
  }

  void OnListFailure(const Status& why) override {
    MutexLock lock(mutex_);
    list_failure_ = why;
    listing_ = false;
    sync_changed_.NotifyAll();
  }

  void OnListItem(Json item) override {
    {
      MutexLock lock(mutex_);
      const std::string key = KeyOf(item);
      PutLocked(key, std::move(item), !observed_.contains(key));
      objects_.find(std::string_view(key))->second.list = list_;
    }
    // It dispatches object by object, so that the objects of a long list are never in memory
    // together.
    DeliverChanges();
  }

  void OnListEnd(const std::string& version) override {
    bool many = false;
    {
      MutexLock lock(mutex_);
      std::vector<std::string> absent;
      for (const auto& [key, kept] : objects_) {
        if (kept.list != list_) absent.emplace_back(key);
      }
      for (const std::string& key : absent) RemoveLocked(key, version, !observed_.contains(key));
      many = objects_.size() > kManyObjects;
      version_ = version;
      listing_ = false;
      list_failure_ = base::OkStatus();
      if (!synced_) queue_.AddSync();
    }
    DeliverChanges();
    if (many) malloc_trim(0);  // the text and values of a long list were freed
  }

  void OnChange(WatchEvent event) override {
    {
      MutexLock lock(mutex_);
      const std::string version = VersionOf(event.object);
      if (CompareVersions(version, version_) > 0) version_ = version;
      switch (event.type) {
        case WatchEvent::Type::kAdded:
        case WatchEvent::Type::kModified: {
          const std::string key = KeyOf(event.object);
          PutLocked(key, std::move(event.object));
          break;
        }
        case WatchEvent::Type::kDeleted:
          RemoveLocked(KeyOf(event.object), version);
          break;
        case WatchEvent::Type::kBookmark:
          break;
      }
    }
    DeliverChanges();
  }

  const api::KindInfo& kind_;
  const InformerOptions options_;
  const Factory factory_;
  api::LabelSelector labels_;
  api::FieldSelector fields_;

  mutable base::Mutex mutex_;
  base::CondVar sync_changed_;
  mutable PackedObjects packed_ ABSL_GUARDED_BY(mutex_);
  std::pmr::unordered_map<ObjectIndex::Key, Kept, KeyHash, std::equal_to<>> objects_
      ABSL_GUARDED_BY(mutex_){packed_.memory()};
  std::map<std::string, Index> indexes_ ABSL_GUARDED_BY(mutex_);
  HandlerQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool dispatching_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t deliveries_ ABSL_GUARDED_BY(mutex_) = 0;  // completed deliveries
  base::CondVar delivered_;
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  Status list_failure_ ABSL_GUARDED_BY(mutex_);  // of the last list
  std::string version_ ABSL_GUARDED_BY(mutex_);  // up to which the copy is complete
  uint32_t list_ ABSL_GUARDED_BY(mutex_) = 0;    // the number of the last list that began
  bool listing_ ABSL_GUARDED_BY(mutex_) = false;
  // Keys of the program's own writes since the list began, which the list may lack. All else is as
  // the list says, even if it is older, because the API's store may be restored from a backup.
  std::set<std::string> observed_ ABSL_GUARDED_BY(mutex_);
  base::Mutex start_mutex_;
  bool stopped_ ABSL_GUARDED_BY(start_mutex_) = false;
  std::atomic<bool> started_ = false;
  Reflector reflector_;  // last: it uses all of the above
};

InformerBase::InformerBase(Client& client, const api::KindInfo& kind, InformerOptions options,
                           Factory factory)
    : kind_(kind),
      impl_(std::make_shared<Impl>(client, kind, std::move(options), std::move(factory))) {}

InformerBase::InformerBase(InformerBase& shared)
    : kind_(shared.kind_), view_(true), impl_(shared.impl_) {}

InformerBase::~InformerBase() { Stop(); }

void InformerBase::AddHandler(Handler handler) {
  const size_t number = impl_->AddHandler(std::move(handler));
  MutexLock lock(mutex_);
  handlers_.push_back(number);
}

void InformerBase::AddIndex(std::string name, IndexFunction function) {
  impl_->AddIndex(name, std::move(function));
  MutexLock lock(mutex_);
  indexes_.push_back(std::move(name));
}

void InformerBase::Stop() {
  if (!view_) {
    impl_->Stop();
    return;
  }
  std::vector<size_t> handlers;
  std::vector<std::string> indexes;
  {
    MutexLock lock(mutex_);
    handlers = std::exchange(handlers_, {});
    indexes = std::exchange(indexes_, {});
  }
  impl_->RemoveHandlers(handlers);
  for (const std::string& name : indexes) impl_->ReleaseIndex(name);
}

void InformerBase::Start() { impl_->Start(); }
bool InformerBase::started() const { return impl_->started(); }
bool InformerBase::synced() const { return impl_->synced(); }
bool InformerBase::WaitForSync(std::chrono::steady_clock::time_point deadline) {
  return impl_->WaitForSync(deadline);
}
bool InformerBase::WaitForSyncOrRefusal(std::chrono::steady_clock::time_point deadline) {
  return impl_->WaitForSyncOrRefusal(deadline);
}
Status InformerBase::list_failure() const { return impl_->list_failure(); }
Status InformerBase::CheckListed() const {
  if (synced()) return base::OkStatus();
  const Status why = list_failure();
  return base::Error(StatusCode::kFailedPrecondition, "{} are not listed{}{}",
                     kind_.group_resource(), why.ok() ? "" : ": ",
                     why.ok() ? "" : base::Message(why));
}
InformerBase::ObjectPtr InformerBase::Find(const std::string& key) const {
  return impl_->Find(key);
}
std::vector<InformerBase::ObjectPtr> InformerBase::All() const { return impl_->All(); }
void InformerBase::Visit(const std::function<void(const ObjectPtr&)>& visitor) const {
  for (const std::string& key : impl_->Keys()) {
    if (const ObjectPtr object = impl_->Find(key)) visitor(object);
  }
}
std::vector<InformerBase::ObjectPtr> InformerBase::FindByIndex(const std::string& index,
                                                               const std::string& value) const {
  return impl_->FindByIndex(index, value);
}
void InformerBase::Observe(Json object) { impl_->Observe(std::move(object)); }

}  // namespace berth::kube
