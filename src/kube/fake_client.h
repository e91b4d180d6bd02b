// A Kubernetes API in memory, for table tests: objects in, actions and objects out.
//
//   kube::FakeClient client(clock);
//   client.Add(R"({"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"},...})"_json);
//   client.FailNext("patch", "persistentvolumes", base::Error(base::StatusCode::kUnavailable,
//   "lost"));
//   ... run the controller ...
//   ASSERT_TRUE(client.WaitUntil([&] { return Phase(client) == "Bound"; }));
//   EXPECT_THAT(client.TakeActions(), ElementsAre("patch persistentvolumes/pv-1 {...}", ...));
//
// It keeps the rules of the real one that controllers depend on: resourceVersions and conflicts,
// uid, creationTimestamp, generateName, generation of pods and custom kinds, the status
// subresource, finalizers and deletionTimestamp, a pod's grace period, pods/NAME/binding,
// propagationPolicy, a namespace's spec.finalizers, selectors, paging, watches with history,
// discovery. It does not validate objects, know defaults, or need a namespace to exist.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kube/client.h"

namespace berth::kube {

class FakeClient : public Client {
 public:
  FakeClient() = default;  // with the system's clock
  // `clock` must outlive the client.
  explicit FakeClient(const base::Clock& clock) : clock_(&clock) {}

  // Stores `object` as it is, status included, and returns it with its metadata completed. It
  // replaces an object of that name and does not count as an action. apiVersion and kind must be
  // those of a known kind.
  Json Add(Json object);
  template <typename T>
  T Add(const T& object) {
    return T(Add(object.json()));
  }
  // Removes an object at once, whatever its finalizers are, and does not count as an action. False
  // if it is not there.
  bool Remove(const api::KindInfo& kind, std::string_view ns, std::string_view name);

  // Serves a custom kind too; what `kind` borrows must outlive the client. Clients may then name it
  // by any KindInfo of that group and plural.
  void Serve(const api::KindInfo& kind);
  // Stops serving a kind, built-in or custom: its objects disappear without an event, and each call
  // of it is NOT_FOUND.
  void StopServing(const api::KindInfo& kind);

  // Reads an object; null if it does not exist. Never fails, and does not count as an action.
  Json Peek(const api::KindInfo& kind, std::string_view ns, std::string_view name) const;
  std::vector<Json> PeekAll(const api::KindInfo& kind) const;
  template <typename T>
  std::optional<T> Peek(std::string_view ns, std::string_view name) const {
    Json object = Peek(T::kInfo, ns, name);
    if (object.is_null()) return std::nullopt;
    return T(std::move(object));
  }

  // The next call of `verb` (get list create update patch delete watch) on `resource` ("pods",
  // "pods/status", "pods/binding") returns `status` and changes nothing. Several such failures form
  // a queue.
  void FailNext(std::string_view verb, std::string_view resource, Status status);
  // As FailNext, but the call takes effect and only its answer is lost: the unknown outcome.
  void LoseNextAnswer(std::string_view verb, std::string_view resource, Status status);
  // All calls fail with `status` and all watches break, until SetOutage is called with OK.
  void SetOutage(Status status);

  // Ends all watches, as a server does from time to time.
  void EndWatches();
  // Drops the history of changes. Watches from an earlier resourceVersion then get OUT_OF_RANGE.
  void Compact();

  // Removes and returns the writes since the last call, in order, with the failed ones:
  // "create pods/default/web {...}", "patch pods/default/web/status {...}",
  // "delete pods/default/web". Bodies are compact JSON with sorted members. If a patch is not a
  // merge patch, its type stands before the body ("json", "strategic").
  std::vector<std::string> TakeActions();
  // Returns the same without bodies, and does not remove them.
  std::vector<std::string> ActionNames() const;

  // Waits until `condition` is true, which is evaluated now and after each change. Returns false at
  // the time-out.
  bool WaitUntil(const std::function<bool()>& condition,
                 std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Waits until `count` watches on `kind` are open.
  bool WaitForWatches(const api::KindInfo& kind, int count,
                      std::chrono::milliseconds timeout = std::chrono::seconds(10));

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override;
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override;
  StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                        const Json& object) override;
  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override;
  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override;
  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override;
  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override;
  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override;
  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override;
  // Passes the content that SetStream set for the target, in one chunk, or the aggregated discovery
  // documents /api and /apis. NOT_FOUND for other targets.
  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override;
  void SetStream(std::string_view target, std::string_view content);

 private:
  struct Failure {
    std::string verb;
    std::string resource;
    Status status;
    bool after = false;
  };
  struct HistoryEntry {
    int64_t version;
    const api::KindInfo* kind;
    Json before;  // null: added
    Json after;   // null: deleted
  };
  struct Filter;
  using Objects = std::map<std::string, Json>;  // by api::ObjectKey

  // Removes and returns the failure that is due for this call; OK if there is none. `after` is set
  // to the failure that is reported after the call has taken effect.
  Status TakeFailure(std::string_view verb, std::string_view resource, Status& after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordAction(std::string_view verb, const api::KindInfo& kind, std::string_view ns,
                    std::string_view name, std::string_view subresource, std::string body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores `object` (null: removes it) under `key` with a new resourceVersion.
  Json CommitChange(const api::KindInfo& kind, const std::string& key, Json object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StatusOr<Json> CreateLocked(const api::KindInfo& kind, std::string_view ns, Json object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StatusOr<Json> UpdateLocked(const api::KindInfo& kind, const std::string& key, Json object,
                              std::string_view subresource) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status DeleteLocked(const api::KindInfo& kind, const std::string& key,
                      const DeleteOptions& options) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status BindLocked(const api::KindInfo& kind, const std::string& key, const Json& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StatusOr<Json> MakeTokenLocked(const std::string& key, const Json& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Json* FindLocked(const api::KindInfo& kind, const std::string& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The events since `version` that pass `filter`; advances `version`.
  std::vector<WatchEvent> FindEventsSince(const api::KindInfo& kind, const Filter& filter,
                                          int64_t& version) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Now() const;
  // The KindInfo under which objects of the kind are stored.
  const api::KindInfo& FindServedKind(const api::KindInfo& kind) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<const api::KindInfo*> FindServedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MakeDiscoveryLocked(bool core) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::SystemClock system_clock_;
  const base::Clock* clock_ = &system_clock_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<const api::KindInfo*> custom_ ABSL_GUARDED_BY(mutex_);
  std::vector<const api::KindInfo*> unserved_ ABSL_GUARDED_BY(mutex_);
  std::map<const api::KindInfo*, Objects> objects_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<HistoryEntry> history_ ABSL_GUARDED_BY(mutex_);
  int64_t compacted_ ABSL_GUARDED_BY(mutex_) = 0;  // changes up to here are forgotten
  std::list<Failure> failures_ ABSL_GUARDED_BY(mutex_);
  Status outage_ ABSL_GUARDED_BY(mutex_);
  int64_t watch_generation_ ABSL_GUARDED_BY(mutex_) = 0;  // EndWatches increments it
  std::map<const api::KindInfo*, int> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> actions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> action_names_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::kube
