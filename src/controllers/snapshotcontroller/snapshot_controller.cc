#include "controllers/snapshotcontroller/snapshot_controller.h"

#include <algorithm>

#include "api/time.h"
#include "base/log.h"
#include "controllers/data_source.h"
#include "controllers/queue_options.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotcontroller/class_lookup.h"
#include "controllers/snapshotcontroller/group_controller.h"
#include "controllers/snapshotcontroller/group_members.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotcontroller {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Whether another program changed a field that matters here. This controller writes only status and
// finalizers.
template <typename T>
bool Changed(const T* before, const T& after) {
  return before == nullptr || before->deleting() != after.deleting() ||
         before->json().value("spec", Json()) != after.json().value("spec", Json());
}

// Whether the failure means that the content is missing or wrong, so that there is no data to use.
// Other failures do not make a snapshot unusable that is ready.
bool LosesContent(std::string_view reason) {
  static constexpr std::string_view kReasons[] = {"SnapshotContentMissing", "SnapshotMisbound",
                                                  "SnapshotContentMismatch",
                                                  "SnapshotContentMisbound"};
  return std::find(std::begin(kReasons), std::end(kReasons), reason) != std::end(kReasons);
}

// Whether a failure leaves readyToUse as it is, also where it was never written.
bool KeepsReadiness(std::string_view reason) {
  static constexpr std::string_view kReasons[] = {
      "GetSnapshotClassFailed", "SetDefaultSnapshotClassFailed", "SnapshotStatusUpdateFailed"};
  return std::find(std::begin(kReasons), std::end(kReasons), reason) != std::end(kReasons);
}

std::vector<std::string> OneKey(const std::string& ns, const std::string& name) {
  if (name.empty()) return {};
  return {api::ObjectKey(ns, name)};
}

template <typename T>
std::vector<std::string> GroupHandleKey(const T& content) {
  if (content.group_handle().empty()) return {};
  return {api::ObjectKey(content.driver(), content.group_handle())};
}

// The name of the snapshot from which the claim gets its data; "" for none. A claim gets none from
// another namespace, so it must not keep a snapshot there from being deleted.
std::string RestoredSnapshot(const api::PersistentVolumeClaim& claim) {
  const bool own = claim.data_source().String({"namespace"}, claim.ns()) == claim.ns();
  return own ? SnapshotSourceName(claim) : "";
}

}  // namespace

std::string ContentName(const api::VolumeSnapshot& snapshot) {
  return fmt::format("snapcontent-{}", snapshot.uid());
}

SnapshotController::SnapshotController(Context context, Options options)
    : context_(context),
      options_(options),
      snapshots_(context.informers.Of<Snapshot>()),
      contents_(context.informers.Of<Content>()),
      classes_(context.informers.Of<Class>()),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      nodes_(options.distributed_snapshotting ? &context.informers.Of<api::Node>() : nullptr),
      groups_(options.group_snapshots ? &context.informers.OfOptional<api::VolumeGroupSnapshot>()
                                      : nullptr),
      group_contents_(options.group_snapshots
                          ? &context.informers.OfOptional<api::VolumeGroupSnapshotContent>()
                          : nullptr),
      times_(context.metrics),
      snapshot_workers_(MakeQueueOptions("snapshots", options_.workers, options_, context),
                        [this](const std::string& key) { return SyncSnapshot(key); }),
      content_workers_(MakeQueueOptions("snapcontents", options_.workers, options_, context),
                       [this](const std::string& key) { return SyncContent(key); }),
      claim_workers_(MakeQueueOptions("snapclaims", options_.workers, options_, context),
                     [this](const std::string& key) { return SyncClaim(key); }) {
  AddIndexes();
  AddHandlers();
  if (options_.group_snapshots) {
    group_controller_ = std::make_unique<GroupController>(context_, options_, times_);
  }
}

SnapshotController::~SnapshotController() { Stop(); }

void SnapshotController::AddIndexes() {
  snapshots_.AddIndex(kSnapshotsByClaim, [](const Snapshot& snapshot) {
    return OneKey(snapshot.ns(), snapshot.source_claim());
  });
  snapshots_.AddIndex(kSnapshotsByContent, [](const Snapshot& snapshot) {
    return OneKey("", snapshot.source_content().empty() ? snapshot.content_name()
                                                        : snapshot.source_content());
  });
  AddGroupIndex(snapshots_);
  if (group_contents_ != nullptr) {
    group_contents_->AddIndex(kContentsByGroup, GroupHandleKey<api::VolumeGroupSnapshotContent>);
    contents_.AddIndex(kContentsByGroup, GroupHandleKey<Content>);
  }
  claims_.AddIndex(kClaimsBySnapshot,
                   [](const Claim& claim) { return OneKey(claim.ns(), RestoredSnapshot(claim)); });
}

void SnapshotController::AddHandlers() {
  snapshots_.AddHandler([this](const auto& change) {
    const Snapshot& snapshot = change.latest();
    if (!snapshot.source_claim().empty()) {
      claim_workers_.Add(api::ObjectKey(snapshot.ns(), snapshot.source_claim()));
    }
    if (change.after == nullptr) {
      times_.NoteDeletion(snapshot, DriverOf(snapshot));
      return;
    }
    times_.NoteSnapshot(snapshot, DriverOf(snapshot));
    if (Changed(change.before.get(), *change.after)) {
      snapshot_workers_.AddNow(change.key);
    } else {
      snapshot_workers_.Add(change.key);
    }
  });
  contents_.AddHandler([this](const auto& change) {
    const Content& content = change.latest();
    if (change.after != nullptr) content_workers_.Add(change.key);
    if (!content.snapshot_name().empty()) snapshot_workers_.AddNow(content.snapshot_key());
    for (const auto& snapshot : snapshots_.ByIndex(kSnapshotsByContent, content.name())) {
      snapshot_workers_.AddNow(snapshot->key());
    }
  });
  classes_.AddHandler([this](const auto& change) {
    snapshots_.ForEach([&](const Snapshot& snapshot) {
      const bool depends = DependsOnClass(snapshot, change.key, change.after == nullptr);
      if (depends) snapshot_workers_.AddNow(snapshot.key());
    });
  });
  if (groups_ != nullptr) {
    groups_->AddHandler([this](const auto& change) {
      // The copy may show a deletion and a new group of the same name as one change.
      const bool gone = change.after == nullptr ||
                        (change.before != nullptr && change.before->uid() != change.after->uid());
      if (change.before == nullptr) {
        if (const auto content = group_contents_->Get(BoundContentName(*change.after))) {
          WakeMembers(*content);
        }
      }
      if (!gone) return;
      // The snapshots of the group go now.
      for (const auto& member : snapshots_.ByIndex(kSnapshotsByGroup, change.key)) {
        snapshot_workers_.AddNow(member->key());
      }
    });
  }
  if (group_contents_ != nullptr) {
    group_contents_->AddHandler([this](const auto& change) {
      if (change.after != nullptr) WakeMembers(*change.after);
    });
  }
  claims_.AddHandler([this](const auto& change) {
    const Claim& claim = change.latest();
    if (claim.has_finalizer(kClaimSourceProtection)) claim_workers_.Add(change.key);
    // The claim is bound now, or its volume was restored, and a deletion waited for that.
    const std::string before = change.before == nullptr ? "" : change.before->phase();
    if (change.after != nullptr && before == claim.phase()) return;
    for (const auto& snapshot : snapshots_.ByIndex(kSnapshotsByClaim, change.key)) {
      if (!snapshot->ready()) snapshot_workers_.AddNow(snapshot->key());
    }
    if (const std::string source = RestoredSnapshot(claim); !source.empty()) {
      snapshot_workers_.AddNow(api::ObjectKey(claim.ns(), source));
    }
  });
}

void SnapshotController::WakeMembers(const api::VolumeGroupSnapshotContent& group) {
  for (const std::string& key : GroupHandleKey(group)) {
    for (const auto& member : contents_.ByIndex(kContentsByGroup, key)) {
      if (!member->snapshot_name().empty()) snapshot_workers_.Add(member->snapshot_key());
    }
  }
}

void SnapshotController::Start() {
  snapshot_workers_.Start();
  content_workers_.Start();
  claim_workers_.Start();
  if (group_controller_ != nullptr) group_controller_->Start();
}

void SnapshotController::Stop() {
  snapshot_workers_.Stop();
  content_workers_.Stop();
  claim_workers_.Stop();
  if (group_controller_ != nullptr) group_controller_->Stop();
}

SnapshotController::Outcome SnapshotController::SyncSnapshot(const std::string& key) {
  const auto snapshot = snapshots_.Get(key);
  if (snapshot == nullptr) return Outcome::Done();
  const StatusOr<std::shared_ptr<const Class>> snapshot_class = ClassOf(*snapshot);
  if (!snapshot_class.ok()) ReportClassError(*snapshot, snapshot_class.status());
  if (snapshot->deleting()) return Delete(*snapshot);
  if (!snapshot_class.ok()) {
    // A class that comes queues the snapshot again; one that is not ready may wait for a claim,
    // too.
    if (OfApi(snapshot_class.status())) return AfterApi(snapshot_class.status());
    return snapshot->ready() ? Outcome::Done() : Outcome::Retry(snapshot_class.status());
  }
  if (*snapshot_class == nullptr || !snapshot->class_name().empty()) {
    return Bind(*snapshot, snapshot_class->get());
  }
  // The class is written to the object, so that it stays the same if the default changes later.
  const StatusOr<Snapshot> classed =
      PatchAt(context_.client, snapshots_, *snapshot,
              {{"spec", {{"volumeSnapshotClassName", (*snapshot_class)->name()}}}});
  return classed.ok() ? Bind(*classed, snapshot_class->get()) : AfterApi(classed.status());
}

SnapshotController::Outcome SnapshotController::Bind(const Snapshot& snapshot,
                                                     const Class* snapshot_class) {
  if (!OwningGroup(snapshot).empty() && snapshot.source_content().empty()) {
    return BindMember(snapshot);
  }
  if (snapshot.source_claim().empty() == snapshot.source_content().empty()) {
    return Fail(snapshot, "SnapshotValidationError",
                "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be "
                "specified");
  }
  return snapshot.source_content().empty() ? BindDynamic(snapshot, *snapshot_class)
                                           : BindExisting(snapshot);
}

StatusOr<std::shared_ptr<const api::VolumeSnapshotClass>> SnapshotController::ClassOf(
    const Snapshot& snapshot) const {
  if (const std::string name = snapshot.class_name(); !name.empty()) {
    return FindClass(context_.client, classes_, name,
                     "volumesnapshotclass.snapshot.storage.k8s.io");
  }
  if (snapshot.deleting() || !snapshot.source_content().empty() || !OwningGroup(snapshot).empty()) {
    return std::shared_ptr<const Class>();
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const Volume> volume, VolumeOf(snapshot));
  const std::string driver = volume->csi().driver();
  std::vector<std::shared_ptr<const Class>> defaults;
  for (auto& candidate : classes_.List()) {
    if (candidate->driver() == driver && candidate->annotation(kDefaultSnapshotClass) == "true") {
      defaults.push_back(std::move(candidate));
    }
  }
  if (defaults.size() == 1) return defaults.front();
  if (!defaults.empty()) {
    return Error(StatusCode::kFailedPrecondition, "{} default snapshot classes were found",
                 defaults.size());
  }
  return Error(StatusCode::kNotFound, "cannot find default snapshot class for driver '{}'", driver);
}

void SnapshotController::ReportClassError(const Snapshot& snapshot, const Status& why) {
  if (OfApi(why)) return;
  if (snapshot.class_name().empty()) {
    ReportError(
        snapshot, "SetDefaultSnapshotClassFailed",
        fmt::format("Failed to set default snapshot class with error {}", base::Message(why)));
  } else {
    ReportError(snapshot, "GetSnapshotClassFailed",
                fmt::format("Failed to get snapshot class with error {}", base::Message(why)));
  }
}

SnapshotController::Outcome SnapshotController::SyncContent(const std::string& key) {
  const auto content = contents_.Get(key);
  if (content == nullptr) return Outcome::Done();
  if (content->source_volume_handle().empty() == content->source_snapshot_handle().empty()) {
    context_.events.Record(content->reference(), EventType::kWarning, "ContentValidationError",
                           "Exactly one of VolumeHandle and SnapshotHandle should be specified");
    return Outcome::Done();
  }
  if (content->snapshot_uid().empty() || content->deleting() ||
      content->has_finalizer(kContentProtection)) {
    return Outcome::Done();
  }
  return AfterApi(PatchAt(context_.client, contents_, *content,
                          FinalizersPatch(*content, kContentProtection, ""))
                      .status());
}

std::string SnapshotController::DriverOf(const Snapshot& snapshot) const {
  std::string named = snapshot.source_content();
  if (named.empty() && !OwningGroup(snapshot).empty()) named = snapshot.content_name();
  if (const auto content = contents_.Get(named.empty() ? ContentName(snapshot) : named)) {
    return content->driver();
  }
  const auto snapshot_class = classes_.Get(snapshot.class_name());
  return snapshot_class == nullptr ? "" : snapshot_class->driver();
}

bool SnapshotController::TakesFromClaim(const Snapshot& snapshot) const {
  if (snapshot.ready()) return false;
  return !snapshot.deleting() || snapshot.has_finalizer(kSnapshotSourceProtection);
}

SnapshotController::Outcome SnapshotController::SyncClaim(const std::string& key) {
  {
    // From here on another worker that wants the finalizer waits (HoldClaim), or is seen below.
    MutexLock lock(mutex_);
    releasing_.insert(key);
  }
  const auto release = [&]() -> Status {
    const auto claim = claims_.Get(key);
    if (claim == nullptr || !claim->has_finalizer(kClaimSourceProtection)) return base::OkStatus();
    const auto snapshots = snapshots_.ByIndex(kSnapshotsByClaim, key);
    if (std::any_of(snapshots.begin(), snapshots.end(),
                    [&](const auto& snapshot) { return TakesFromClaim(*snapshot); })) {
      return base::OkStatus();  // the snapshot's end queues the claim again
    }
    return UpdateAt(context_.client, claims_, *claim,
                    FinalizersPatch(*claim, "", kClaimSourceProtection))
        .status();
  };
  const Status released = release();
  {
    MutexLock lock(mutex_);
    releasing_.erase(key);
  }
  if (!released.ok() && AfterApi(released).delay.count() < 0) {
    const auto claim = claims_.Get(key);
    if (claim != nullptr && released.code() != StatusCode::kNotFound) {
      context_.events.Record(
          claim->reference(), EventType::kWarning, "ErrorPVCFinalizer",
          fmt::format("Error check and remove PVC Finalizer: {}", base::Message(released)));
    }
  }
  return AfterApi(released);
}

SnapshotController::Outcome SnapshotController::Fail(const Snapshot& snapshot,
                                                     std::string_view reason,
                                                     const std::string& message) {
  ReportError(snapshot, reason, message);
  return Outcome::Retry(Error(StatusCode::kFailedPrecondition, "{}: {}", reason, message));
}

SnapshotController::Outcome SnapshotController::FailBinding(const Snapshot& snapshot,
                                                            std::string_view reason,
                                                            const std::string& message) {
  if (ReportError(snapshot, reason, message)) {
    // The Go program finds it out when it adds its finalizers, and says so.
    context_.events.Record(snapshot.reference(), EventType::kWarning, "SnapshotFinalizerError",
                           fmt::format("Failed to check and update snapshot: {}", message));
  }
  return Outcome::Retry(Error(StatusCode::kFailedPrecondition, "{}: {}", reason, message));
}

bool SnapshotController::ReportError(const Snapshot& snapshot, std::string_view reason,
                                     const std::string& message) {
  const auto current = snapshots_.Get(snapshot.key());
  if (current == nullptr || current->error() == message) return false;
  context_.events.Record(snapshot.reference(), EventType::kWarning, reason, message);
  const Json error = {{"time", api::FormatTime(context_.clock.Now())}, {"message", message}};
  Json status = {{"error", error}};
  const bool unusable = !current->ready() && !KeepsReadiness(reason);
  if (unusable || LosesContent(reason)) status["readyToUse"] = false;
  // The result is ignored, because the failed work is tried again in any case.
  (void)Patch(context_.client, snapshots_, *current, {{"status", std::move(status)}}, "status");
  return true;
}

}  // namespace berth::controllers::snapshotcontroller
