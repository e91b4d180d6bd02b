#include "controllers/snapshotcontroller/group_controller.h"

#include <algorithm>

#include "api/time.h"
#include "base/log.h"
#include "controllers/queue_options.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotcontroller/class_lookup.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotcontroller {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Index: a namespace → its groups that are not ready or are being deleted, which wait for claims.
constexpr char kWaitingGroups[] = "waiting";

// As LosesContent in snapshot_controller.cc.
bool LosesGroupContent(std::string_view reason) {
  static constexpr std::string_view kReasons[] = {
      "GroupSnapshotContentMissing", "GroupSnapshotMisbound", "GroupSnapshotContentMismatch",
      "GroupSnapshotContentMisbound"};
  return std::find(std::begin(kReasons), std::end(kReasons), reason) != std::end(kReasons);
}

// As KeepsReadiness in snapshot_controller.cc.
bool KeepsGroupReadiness(std::string_view reason) {
  return reason == "GetGroupSnapshotClassFailed" || reason == "SetDefaultGroupSnapshotClassFailed";
}

}  // namespace

std::string GroupContentName(const api::VolumeGroupSnapshot& group) {
  return fmt::format("groupsnapcontent-{}", group.uid());
}

std::string BoundContentName(const api::VolumeGroupSnapshot& group) {
  std::string name = group.source_content();
  return name.empty() ? GroupContentName(group) : name;
}

GroupController::GroupController(const Context& context, const Options& options,
                                 OperationTimes& times)
    : context_(context),
      times_(times),
      groups_(context.informers.OfOptional<Group>()),
      contents_(context.informers.OfOptional<Content>()),
      classes_(context.informers.OfOptional<Class>()),
      snapshots_(context.informers.Of<api::VolumeSnapshot>()),
      claims_(context.informers.Of<api::PersistentVolumeClaim>()),
      members_(context),
      group_workers_(MakeQueueOptions("groupsnapshots", options.workers, options, context),
                     [this](const std::string& key) { return SyncGroup(key); }),
      content_workers_(MakeQueueOptions("groupsnapcontents", options.workers, options, context),
                       [this](const std::string& key) { return SyncContent(key); }) {
  AddHandlers();
}

GroupController::~GroupController() { Stop(); }

void GroupController::AddHandlers() {
  groups_.AddIndex(kWaitingGroups, [](const Group& group) -> std::vector<std::string> {
    if (group.ready() && !group.deleting()) return {};
    return {group.ns()};
  });
  groups_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      times_.NoteGroupDeletion(*change.before, DriverOf(*change.before));
      return;
    }
    times_.NoteGroup(*change.after, DriverOf(*change.after));
    const bool changed = change.before == nullptr ||
                         change.before->deleting() != change.after->deleting() ||
                         change.before->generation() != change.after->generation();
    if (changed) {
      group_workers_.AddNow(change.key);
    } else {
      group_workers_.Add(change.key);
    }
  });
  contents_.AddHandler([this](const auto& change) {
    const Content& content = change.latest();
    if (change.after != nullptr) content_workers_.Add(change.key);
    if (!content.group_name().empty()) group_workers_.AddNow(content.group_key());
  });
  classes_.AddHandler([this](const auto& change) {
    groups_.ForEach([&](const Group& group) {
      const bool depends = DependsOnClass(group, change.key, change.after == nullptr);
      if (depends) group_workers_.AddNow(group.key());
    });
  });
  claims_.AddHandler([this](const auto& change) {
    // The claim is bound now, or its volume was restored, and a deletion waited for that.
    const std::string before = change.before == nullptr ? "" : change.before->phase();
    if (change.after != nullptr && before == change.after->phase()) return;
    for (const auto& group : groups_.ByIndex(kWaitingGroups, change.latest().ns())) {
      group_workers_.AddNow(group->key());
    }
  });
}

void GroupController::Start() {
  group_workers_.Start();
  content_workers_.Start();
}

void GroupController::Stop() {
  group_workers_.Stop();
  content_workers_.Stop();
}

GroupController::Outcome GroupController::SyncGroup(const std::string& key) {
  const auto group = groups_.Get(key);
  if (group == nullptr) return Outcome::Done();
  // The kinds may come one after the other, and an absent object decides below.
  for (const Status& listed : {contents_.CheckListed(), classes_.CheckListed()}) {
    if (!listed.ok()) return Outcome::Retry(listed);
  }
  const StatusOr<std::shared_ptr<const Class>> group_class = ClassOf(*group);
  if (!group_class.ok()) ReportClassError(*group, group_class.status());
  if (group->deleting()) return Delete(*group);
  if (!group_class.ok()) {
    // A class that comes queues the group again; one that is not ready may wait for claims, too.
    if (OfApi(group_class.status())) return AfterApi(group_class.status());
    return group->ready() ? Outcome::Done() : Outcome::Retry(group_class.status());
  }
  if (*group_class == nullptr || !group->class_name().empty()) {
    return Bind(*group, group_class->get());
  }
  // The class is written to the object, so that it stays the same if the default changes later.
  const StatusOr<Group> classed =
      PatchAt(context_.client, groups_, *group,
              {{"spec", {{"volumeGroupSnapshotClassName", (*group_class)->name()}}}});
  return classed.ok() ? Bind(*classed, group_class->get()) : AfterApi(classed.status());
}

GroupController::Outcome GroupController::Bind(const Group& group, const Class* group_class) {
  if ((group.selector() == nullptr) == group.source_content().empty()) {
    return Fail(group, "GroupSnapshotValidationError",
                "Exactly one of Selector and VolumeGroupSnapshotContentName should be specified");
  }
  return group.selector() != nullptr ? BindDynamic(group, *group_class) : BindExisting(group);
}

void GroupController::ReportClassError(const Group& group, const Status& why) {
  if (OfApi(why)) return;
  if (group.class_name().empty()) {
    ReportError(group, "SetDefaultGroupSnapshotClassFailed",
                fmt::format("Failed to set default group snapshot class with error {}",
                            base::Message(why)));
  } else {
    ReportError(
        group, "GetGroupSnapshotClassFailed",
        fmt::format("failed to get group snapshot class with error {}", base::Message(why)));
  }
}

GroupController::Outcome GroupController::SyncContent(const std::string& key) {
  const auto content = contents_.Get(key);
  if (content == nullptr) return Outcome::Done();
  if (content->existing() != content->source_volume_handles().empty()) {
    context_.events.Record(content->reference(), EventType::kWarning, "GroupContentValidationError",
                           "Exactly one of GroupSnapshotHandles and VolumeHandles should be "
                           "specified");
    return Outcome::Done();
  }
  if (content->group_uid().empty() || content->deleting() ||
      content->has_finalizer(kGroupContentProtection)) {
    return Outcome::Done();
  }
  return AfterApi(PatchAt(context_.client, contents_, *content,
                          FinalizersPatch(*content, kGroupContentProtection, ""))
                      .status());
}

GroupController::Outcome GroupController::Delete(const Group& group) {
  if (!group.has_finalizer(kGroupBoundProtection)) return Outcome::Done();
  StatusOr<Content> content = ContentOf(group);
  if (!content.ok() && content.status().code() != StatusCode::kNotFound) {
    return AfterApi(content.status());
  }
  if (const std::string restored = FindRestored(group); !restored.empty()) {
    const std::string pending = fmt::format(
        "Snapshot {} belonging to VolumeGroupSnapshot {} is being used to restore a PVC", restored,
        group.key());
    context_.events.Record(group.reference(), EventType::kWarning, "SnapshotDeletePending",
                           pending);
    return Outcome::Done();  // the claim's binding or end queues the group again
  }
  if (content.ok() && !content->has_annotation(kGroupBeingDeleted)) {
    // This is written for each policy, because a person may later delete a content that was kept.
    content =
        PatchAt(context_.client, contents_, *content,
                {{"metadata", {{"annotations", {{std::string(kGroupBeingDeleted), "yes"}}}}}});
    if (!content.ok()) return AfterApi(content.status());
  }
  const bool cascades = content.ok() && content->delete_with_group();
  if (cascades && !content->deleting()) {
    const Status deleted = kube::Delete(context_.client, *content);
    if (deleted.ok()) {
      LOG_INFO("the content {} of group snapshot {} is deleted, because the group snapshot is",
               base::Quote(content->name()), base::Quote(group.key()));
    }
    if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) {
      if (AfterApi(deleted).delay.count() < 0) {
        context_.events.Record(group.reference(), EventType::kWarning,
                               "GroupSnapshotContentObjectDeleteError",
                               "Failed to delete group snapshot content API object");
      }
      return AfterApi(deleted);
    }
  }
  if (const Status deleted = DeleteMembers(group); !deleted.ok()) return AfterApi(deleted);
  if (cascades) return Outcome::Done();  // the content's end queues the group again
  return AfterApi(
      PatchAt(context_.client, groups_, group, FinalizersPatch(group, "", kGroupBoundProtection))
          .status());
}

StatusOr<api::VolumeGroupSnapshotContent> GroupController::ContentOf(const Group& group) {
  const std::string name = BoundContentName(group);
  const auto known = contents_.Get(name);
  // The API is asked, because the content may exist already, although the answer was lost.
  StatusOr<Content> content =
      known != nullptr ? *known : kube::Get<Content>(context_.client, "", name);
  if (content.ok() &&
      (content->group_uid() != group.uid() || content->group_key() != group.key())) {
    return Error(StatusCode::kNotFound, "content '{}' is bound to another group snapshot", name);
  }
  return content;
}

Status GroupController::DeleteMembers(const Group& group) {
  for (const auto& member : snapshots_.ByIndex(kSnapshotsByGroup, group.key())) {
    if (member->deleting()) continue;
    const Status deleted = kube::Delete(context_.client, *member);
    if (deleted.ok() || deleted.code() == StatusCode::kNotFound) continue;
    if (AfterApi(deleted).delay.count() < 0) {
      context_.events.Record(
          group.reference(), EventType::kWarning, "SnapshotDeleteError",
          fmt::format("failed to delete snapshot API object {} part of group snapshot {}: {}",
                      member->key(), group.key(), base::Message(deleted)));
    }
    return deleted;
  }
  return base::OkStatus();
}

std::string GroupController::FindRestored(const Group& group) const {
  for (const auto& member : snapshots_.ByIndex(kSnapshotsByGroup, group.key())) {
    for (const auto& claim : claims_.ByIndex(kClaimsBySnapshot, member->key())) {
      if (claim->phase() == "Pending") return member->key();
    }
  }
  return "";
}

std::string GroupController::DriverOf(const Group& group) const {
  if (const auto content = contents_.Get(BoundContentName(group))) return content->driver();
  const auto group_class = classes_.Get(group.class_name());
  return group_class == nullptr ? "" : group_class->driver();
}

GroupController::Outcome GroupController::Fail(const Group& group, std::string_view reason,
                                               const std::string& message) {
  ReportError(group, reason, message);
  return Outcome::Retry(Error(StatusCode::kFailedPrecondition, "{}: {}", reason, message));
}

GroupController::Outcome GroupController::FailBinding(const Group& group, std::string_view reason,
                                                      const std::string& message) {
  if (ReportError(group, reason, message)) {
    // The Go program finds it out when it adds its finalizer, and says so.
    context_.events.Record(group.reference(), EventType::kWarning, "GroupSnapshotFinalizerError",
                           fmt::format("Failed to check and update group snapshot: {}", message));
  }
  return Outcome::Retry(Error(StatusCode::kFailedPrecondition, "{}: {}", reason, message));
}

bool GroupController::ReportError(const Group& group, std::string_view reason,
                                  const std::string& message) {
  const auto current = groups_.Get(group.key());
  if (current == nullptr || current->error() == message) return false;
  context_.events.Record(group.reference(), EventType::kWarning, reason, message);
  const Json error = {{"time", api::FormatTime(context_.clock.Now())}, {"message", message}};
  Json status = {{"error", error}};
  const bool unusable = !current->ready() && !KeepsGroupReadiness(reason);
  if (unusable || LosesGroupContent(reason)) status["readyToUse"] = false;
  // The result is ignored, because the failed work is tried again in any case.
  (void)Patch(context_.client, groups_, *current, {{"status", std::move(status)}}, "status");
  return true;
}

}  // namespace berth::controllers::snapshotcontroller
