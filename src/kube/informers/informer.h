// An informer keeps a local copy of all objects of a kind, and keeps it fresh by list and watch.
//
//   kube::Informer<api::PersistentVolumeClaim>& claims = ...;  // see informers.h
//   claims.AddHandler([&](const auto& change) { workers.Add(change.key); });
//   claims.AddSubset("toResize", &NeedsResize);
//
// A broken or absent API delays it (backoff 0.2 s to 10 s, with
// jitter) and never ends it; meanwhile the copy stays as it was. 410 leads to a new list, whose
// differences are delivered as changes. A list counts even if its objects are older, because the
// API may be restored from a backup.
//
// Threads. Every method is thread-safe, and reads never wait for the network. Handlers run one at a
// time, in the order of the changes, on the thread of the watch or on one that calls AddHandler or
// Observe. That thread also delivers the changes that other threads add meanwhile, and the calls of
// these threads return at once. Three rules follow:
//   - A caller of AddHandler or Observe holds no lock that any handler of this informer takes.
//   - A handler is quick, because it delays all later changes. Let it only add a key to a queue.
//   - A handler may read, and may call Observe, whose change is delivered after its own. It never
//     calls Stop or WaitForSync, which wait for handlers.
// The functions of an index run under the informer's lock, so they use nothing but their object.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/object.h"
#include "base/mutex.h"
#include "kube/client.h"
#include "kube/informers/reflector.h"

namespace berth::kube {

// A worker that has to know which objects exist, and finds that the informer has not synced, looks
// again after this time.
inline constexpr std::chrono::milliseconds kSyncCheckInterval{100};

// The part that does not depend on the type of the object.
class InformerBase {
 public:
  using ObjectPtr = std::shared_ptr<const api::Object>;
  struct Change {
    std::string key;   // "namespace/name" or "name"
    ObjectPtr before;  // null: added
    ObjectPtr after;   // null: deleted
  };
  using Handler = std::function<void(const Change&)>;

  using Factory = std::function<ObjectPtr(Json)>;

  InformerBase(Client& client, const api::KindInfo& kind, InformerOptions options, Factory factory);
  // A view of the copy that `shared` keeps. It has handlers and indexes of its own, which are
  // removed when it stops, while the copy and its watch stay. `shared` must outlive it; stopping
  // `shared` ends the watch for both.
  explicit InformerBase(InformerBase& shared);
  ~InformerBase();
  InformerBase(const InformerBase&) = delete;
  InformerBase& operator=(const InformerBase&) = delete;

  // Calls the handler for each change from now on (see Threads). It first gets all objects that are
  // present, as added.
  void AddHandler(Handler handler) ABSL_LOCKS_EXCLUDED(mutex_);

  // Starts the list and watch, once, and not after Stop. A view starts those of its shared
  // informer.
  void Start();
  // Whether Start was called. For a view: of its shared informer.
  bool started() const;
  // Ends the use of the copy. For a view: when Stop returns, none of the view's handlers runs or
  // will be called. Otherwise: the watch has ended, and from then on only AddHandler and Observe
  // call handlers.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the first list is complete and the handlers were called for it.
  bool synced() const;
  // Waits until synced(). Returns false at the deadline.
  bool WaitForSync(std::chrono::steady_clock::time_point deadline);
  // As WaitForSync, but also returns true if the API lacks the kind or forbids to list it.
  bool WaitForSyncOrRefusal(std::chrono::steady_clock::time_point deadline);
  // The error of the last list; OK if it succeeded or no list has ended.
  Status list_failure() const;
  // FAILED_PRECONDITION, with the reason, as long as no list has succeeded. Code that decides by
  // the absence of an object of an optional kind calls this first.
  Status CheckListed() const;

  // nullptr: the copy has no object with this key.
  ObjectPtr Find(const std::string& key) const;
  std::vector<ObjectPtr> All() const;
  // Calls `visitor` for one object after the other, outside of all locks, with the state that the
  // object has at that time. So only a few of many thousands of objects are in memory at once.
  void Visit(const std::function<void(const ObjectPtr&)>& visitor) const;
  // See Informer::AddIndex. Empty if there is no such index.
  std::vector<ObjectPtr> FindByIndex(const std::string& index, const std::string& value) const;

  // Puts an object that this process just wrote or read into the copy, if it is newer than the
  // copy's object (by resourceVersion). So the next look sees it, although the watch has not
  // brought it yet. Handlers are called, on this thread or on the thread that delivers changes at
  // that moment.
  void Observe(Json object);

  const api::KindInfo& kind() const { return kind_; }

 protected:
  // The values under which FindByIndex finds an object, which has the type that Factory makes.
  using IndexFunction = std::function<std::vector<std::string>(const api::Object&)>;
  // See Informer::AddIndex.
  void AddIndex(std::string name, IndexFunction function) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Impl;
  const api::KindInfo& kind_;
  const bool view_ = false;
  const std::shared_ptr<Impl> impl_;
  base::Mutex mutex_;
  std::vector<size_t> handlers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> indexes_ ABSL_GUARDED_BY(mutex_);
};

template <typename T>
class Informer : public InformerBase {
 public:
  struct TypedChange {
    const std::string& key;
    std::shared_ptr<const T> before;
    std::shared_ptr<const T> after;
    // The newest known state: `after`, or `before` of a deleted object.
    const T& latest() const { return after != nullptr ? *after : *before; }
  };

  Informer(Client& client, InformerOptions options = {})
      : InformerBase(client, T::kInfo, std::move(options), [](Json json) -> ObjectPtr {
          return std::make_shared<const T>(std::move(json));
        }) {}
  explicit Informer(Informer& shared) : InformerBase(static_cast<InformerBase&>(shared)) {}

  void AddHandler(std::function<void(const TypedChange&)> handler) {
    InformerBase::AddHandler([handler = std::move(handler)](const Change& change) {
      handler({change.key, Cast(change.before), Cast(change.after)});
    });
  }

  // nullptr: the copy has no such object.
  std::shared_ptr<const T> Get(const std::string& key) const { return Cast(Find(key)); }
  std::shared_ptr<const T> Get(std::string_view ns, std::string_view name) const {
    return Get(api::ObjectKey(ns, name));
  }
  std::vector<std::shared_ptr<const T>> List() const { return Cast(All()); }
  // As InformerBase::Visit.
  void ForEach(const std::function<void(const T&)>& visitor) const {
    Visit([&](const ObjectPtr& object) { visitor(Cast(*object)); });
  }
  std::vector<std::shared_ptr<const T>> ByIndex(const std::string& index,
                                                const std::string& value) const {
    return Cast(FindByIndex(index, value));
  }
  // Adds an index: ByIndex(name, value) finds the objects for which `values_of` returns the value
  // among others. Indexes with the same name are one index, so all callers must pass the same
  // function for the name, and it must depend on the object alone. The index stays until the last
  // view that added it stops.
  void AddIndex(std::string name,
                std::function<std::vector<std::string>(const T& object)> values_of) {
    InformerBase::AddIndex(std::move(name),
                           [values_of = std::move(values_of)](const api::Object& object) {
                             return values_of(Cast(object));
                           });
  }
  // Adds an index with one value: Subset(name) finds the objects for which `belongs` is true.
  void AddSubset(std::string name, bool (*belongs)(const T&)) {
    AddIndex(std::move(name), [belongs](const T& object) {
      return belongs(object) ? std::vector<std::string>{kInSubset} : std::vector<std::string>{};
    });
  }
  std::vector<std::shared_ptr<const T>> Subset(const std::string& name) const {
    return ByIndex(name, kInSubset);
  }

 private:
  static constexpr char kInSubset[] = "in";

  // Each object of the copy is a T, because the factory makes nothing else.
  static const T& Cast(const api::Object& object) { return static_cast<const T&>(object); }
  static std::shared_ptr<const T> Cast(const ObjectPtr& object) {
    return std::static_pointer_cast<const T>(object);
  }
  static std::vector<std::shared_ptr<const T>> Cast(const std::vector<ObjectPtr>& objects) {
    std::vector<std::shared_ptr<const T>> out;
    out.reserve(objects.size());
    for (const ObjectPtr& object : objects) out.push_back(Cast(object));
    return out;
  }
};

}  // namespace berth::kube
