#include "apiserver/custom/definition_controller.h"

#include "api/time.h"
#include "apiserver/custom/accepted_names.h"
#include "apiserver/custom/custom_kind.h"
#include "apiserver/custom/definition.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/kinds/write_rules.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::Find;
using base::json::String;

namespace {
constexpr size_t kDefinitionPage = 500;
constexpr std::chrono::seconds kRetry{1};
}  // namespace

// Wakes the thread when an object changed. The store's fan-out calls it.
class DefinitionController::Wakeup : public store::Watcher {
 public:
  void OnChange(const store::Change&) override { Wake(); }
  void OnLost(const Status&) override {
    base::MutexLock lock(mutex_);
    lost_ = pending_ = true;
    changed_.NotifyAll();
  }
  void MarkLost() {
    base::MutexLock lock(mutex_);
    lost_ = true;
  }
  // Whether a watch ended since the last call.
  bool TakeLost() {
    base::MutexLock lock(mutex_);
    return std::exchange(lost_, false);
  }

  void Wake() {
    base::MutexLock lock(mutex_);
    pending_ = true;
    changed_.NotifyAll();
  }
  void Stop() {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  bool stopping() {
    base::MutexLock lock(mutex_);
    return stopping_;
  }
  // Waits until an object changed or the retry is due. False if the thread must end.
  bool WaitForWork(bool retry) {
    const auto due = std::chrono::steady_clock::now() + kRetry;
    base::MutexLock lock(mutex_);
    while (!pending_ && !stopping_) {
      if (!retry) {
        changed_.Wait(mutex_);
      } else if (!changed_.WaitUntil(mutex_, due)) {
        break;
      }
    }
    pending_ = false;
    return !stopping_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

DefinitionController::DefinitionController(ApiContext& context, std::function<void()> on_change)
    : context_(context), on_change_(std::move(on_change)), wakeup_(std::make_shared<Wakeup>()) {}

DefinitionController::~DefinitionController() { Stop(); }

Status DefinitionController::Start() {
  ASSIGN_OR_RETURN(
      definitions_watch_,
      context_.store.Watch(KeyPrefix(api::kinds::kCustomResourceDefinition, ""), 0, wakeup_));
  ASSIGN_OR_RETURN(const std::vector<Definition> all, ReadDefinitions());
  ServeKinds(all);
  wakeup_->Wake();  // for names to accept and deletions to continue
  thread_ = std::jthread([this] { RunLoop(); });
  return base::OkStatus();
}

void DefinitionController::Stop() {
  wakeup_->Stop();
  if (thread_.joinable()) thread_.join();
  definitions_watch_.reset();
  instance_watches_.clear();
}

void DefinitionController::RunLoop() {
  for (bool retry = false; wakeup_->WaitForWork(retry);) retry = !SyncAll();
}

bool DefinitionController::WatchAgain() {
  instance_watches_.clear();  // DeleteDefinition makes those that are needed
  auto watch =
      context_.store.Watch(KeyPrefix(api::kinds::kCustomResourceDefinition, ""), 0, wakeup_);
  if (!watch.ok()) {
    LOG_ERROR("api: cannot watch the definitions of custom resources: {}",
              base::ToString(watch.status()));
    wakeup_->MarkLost();
    return false;
  }
  definitions_watch_ = *std::move(watch);
  return true;
}

bool DefinitionController::SyncAll() {
  if (wakeup_->TakeLost() && !WatchAgain()) return false;
  auto all = ReadDefinitions();
  if (!all.ok()) {
    LOG_ERROR("api: cannot read the definitions of custom resources: {}",
              base::ToString(all.status()));
    return false;
  }
  bool done = true;
  for (Definition& definition : *all) done &= AcceptNames(definition, *all);
  ServeKinds(*all);
  for (Definition& definition : *all) {
    const bool deleting = Find(definition.object, {"metadata", "deletionTimestamp"}) != nullptr;
    done &= deleting ? DeleteDefinition(definition) : MarkEstablished(definition);
  }
  return done;
}

base::StatusOr<std::vector<DefinitionController::Definition>>
DefinitionController::ReadDefinitions() {
  ASSIGN_OR_RETURN(
      const store::Page page,
      context_.store.List(KeyPrefix(api::kinds::kCustomResourceDefinition, ""), "", 0, 0));
  std::vector<Definition> all;
  for (const store::Record& record : page.records) {
    ASSIGN_OR_RETURN(Json object, DecodeStored(*record.value));
    all.push_back({.object = std::move(object), .revision = record.revision, .key = record.key});
  }
  return all;
}

// Writes `changed` if it differs from the definition.
bool DefinitionController::WriteDefinition(Definition& definition, const Json& changed) {
  if (changed == definition.object) return true;
  const auto revision = context_.store.Apply(
      {.key = definition.key, .expected = definition.revision, .value = EncodeObject(changed)});
  if (revision.ok()) {
    definition.object = changed;
    definition.revision = *revision;
    return true;
  }
  const StatusCode code = revision.status().code();
  // Another client changed the definition, and that change wakes the thread.
  if (code == StatusCode::kAborted || code == StatusCode::kNotFound) return true;
  LOG_ERROR("api: cannot write the status of definition {}: {}", base::Quote(definition.key),
            base::ToString(revision.status()));
  return false;
}

bool DefinitionController::AcceptNames(Definition& definition, const std::vector<Definition>& all) {
  UsedNames used;
  for (const Definition& other : all) {
    if (other.key != definition.key) used.AddAccepted(other.object);
  }
  Json changed = definition.object;
  AcceptNamesOf(changed, used, api::FormatTime(context_.clock.Now()));
  return WriteDefinition(definition, changed);
}

// Sets Established only after the kinds are served, because clients wait for it and then use the
// kinds.
bool DefinitionController::MarkEstablished(Definition& definition) {
  if (!IsConditionTrue(definition.object, "NamesAccepted") ||
      IsConditionTrue(definition.object, "Established")) {
    return true;
  }
  Json changed = definition.object;
  SetCondition(changed, {.type = "Established",
                         .status = "True",
                         .reason = "InitialNamesAccepted",
                         .message = "the initial names have been accepted",
                         .time = api::FormatTime(context_.clock.Now())});
  return WriteDefinition(definition, changed);
}

void DefinitionController::ServeKinds(const std::vector<Definition>& all) {
  std::map<std::string, Served> next;
  std::vector<KindPtr> kinds;
  bool changed = false;
  for (const Definition& definition : all) {
    const Json& object = definition.object;
    if (!IsConditionTrue(object, "NamesAccepted") && !IsConditionTrue(object, "Established")) {
      continue;
    }
    // All data from which the kinds are made. Other parts of the status may change without changing
    // the kinds.
    const std::string made_from = base::json::Dump(
        {String(object, {"metadata", "uid"}), base::json::Int(object, {"metadata", "generation"}),
         Find(object, {"metadata", "deletionTimestamp"}) != nullptr,
         base::json::Map(object, {"status", "acceptedNames"})});
    const auto present = served_.find(definition.key);
    Served served;
    if (present != served_.end() && present->second.made_from == made_from) {
      served = std::move(present->second);
    } else {
      served = {.made_from = made_from, .kinds = MakeCustomKinds(object, context_.kinds)};
      changed = true;
    }
    kinds.insert(kinds.end(), served.kinds.begin(), served.kinds.end());
    next.emplace(definition.key, std::move(served));
  }
  changed |= next.size() != served_.size();
  served_ = std::move(next);
  if (!changed) return;
  context_.kinds.SetCustom(kinds);
  on_change_();
}

bool DefinitionController::DeleteDefinition(Definition& definition) {
  Json changed = definition.object;
  const Json& finalizers = Array(changed, {"metadata", "finalizers"});
  if (std::find(finalizers.begin(), finalizers.end(), kCleanupFinalizer) == finalizers.end()) {
    return true;
  }
  SetCondition(changed, {.type = "Terminating",
                         .status = "True",
                         .reason = "InstanceDeletionInProgress",
                         .message = "CustomResource deletion is in progress",
                         .time = api::FormatTime(context_.clock.Now())});
  if (!WriteDefinition(definition, changed)) return false;

  // If the names were never accepted, no objects exist. Objects under the prefix then belong to
  // another kind.
  const std::string plural = String(changed, {"spec", "names", "plural"});
  const bool had_objects =
      !plural.empty() && String(changed, {"status", "acceptedNames", "plural"}) == plural;
  const std::string prefix = InstancePrefix(changed);
  if (had_objects) {
    // Waits for the creates that began before the kind refused new objects.
    context_.in_flight.WaitForPresent();
    if (!instance_watches_.contains(prefix)) {
      auto watch = context_.store.Watch(prefix, 0, wakeup_);
      if (!watch.ok()) return false;
      instance_watches_.emplace(prefix, *std::move(watch));
    }
    if (const Status status = DeleteObjects(definition); !status.ok()) {
      LOG_WARNING("api: cannot delete objects of definition {}: {}", base::Quote(definition.key),
                  base::ToString(status));
      return false;
    }
    const auto left = context_.store.List(prefix, "", 1, 0);
    if (!left.ok()) return false;
    // Finalizers hold the other objects. The watch wakes the thread when those are removed.
    if (!left->records.empty()) return true;
  }
  instance_watches_.erase(prefix);
  Json& list = changed["metadata"]["finalizers"];
  std::erase_if(list.get_ref<Json::array_t&>(),
                [](const Json& finalizer) { return finalizer == kCleanupFinalizer; });
  if (!list.empty()) {
    SetCondition(changed, {.type = "Terminating",
                           .status = "False",
                           .reason = "InstanceDeletionCompleted",
                           .message = "removed all instances",
                           .time = api::FormatTime(context_.clock.Now())});
    return WriteDefinition(definition, changed);
  }
  const Status removed =
      context_.store.Apply({.key = definition.key, .expected = definition.revision}).status();
  if (!removed.ok() && removed.code() != StatusCode::kAborted &&
      removed.code() != StatusCode::kNotFound) {
    LOG_ERROR("api: cannot remove definition {}: {}", base::Quote(definition.key),
              base::ToString(removed));
    return false;
  }
  return true;
}

namespace {

// Waits for the deletes of one page.
class Deletes {
 public:
  void Add() {
    base::MutexLock lock(mutex_);
    ++running_;
  }
  void CountDone(const Status& status) {
    base::MutexLock lock(mutex_);
    // NOT_FOUND counts as deleted.
    if (!status.ok() && status.code() != StatusCode::kNotFound && failure_.ok()) failure_ = status;
    if (--running_ == 0) idle_.NotifyAll();
  }
  Status WaitForAll() {
    base::MutexLock lock(mutex_);
    while (running_ > 0) idle_.Wait(mutex_);
    return failure_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar idle_;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  Status failure_ ABSL_GUARDED_BY(mutex_) = base::OkStatus();
};

}  // namespace

Status DefinitionController::DeleteObjects(const Definition& definition) {
  const auto served = served_.find(definition.key);
  if (served == served_.end() || served->second.kinds.empty()) return base::OkStatus();
  const KindPtr kind = served->second.kinds.front();
  const std::string prefix = InstancePrefix(definition.object);
  std::string after;
  for (bool more = true; more && !wakeup_->stopping();) {
    ASSIGN_OR_RETURN(const store::Page page,
                     context_.store.List(prefix, after, kDefinitionPage, 0));
    more = page.more;
    const auto deletes = std::make_shared<Deletes>();
    for (const store::Record& record : page.records) {
      after = record.key;
      deletes->Add();
      std::make_shared<Mutation>(
          context_.store, context_.workers, context_.in_flight,
          Mutation::Options{.key = record.key},
          [this, kind](const store::Record* current) -> base::StatusOr<Mutation::Plan> {
            if (current == nullptr) return Mutation::Plan{};
            return PlanDelete(*kind, *current, {}, context_.clock.Now());
          },
          [deletes](const base::StatusOr<Mutation::Result>& result) {
            deletes->CountDone(result.status());
          })
          ->Run();
    }
    RETURN_IF_ERROR(deletes->WaitForAll());
  }
  return base::OkStatus();
}

}  // namespace berth::apiserver
