// Finds or creates the content of a VolumeGroupSnapshot, and binds them (group_controller.h).
#include <algorithm>

#include "api/selector.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/snapshot_names.h"
#include "controllers/snapshotcontroller/class_lookup.h"
#include "controllers/snapshotcontroller/group_controller.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotcontroller {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Whether the content names this VolumeGroupSnapshot. A uid that is not filled in yet fits any.
bool NamesGroup(const api::VolumeGroupSnapshotContent& content,
                const api::VolumeGroupSnapshot& group) {
  return content.group_key() == group.key() &&
         (content.group_uid().empty() || content.group_uid() == group.uid());
}

std::string BoundToAnotherGroup(const api::VolumeGroupSnapshotContent& content) {
  return fmt::format("VolumeGroupSnapshotContent [{}] is bound to a different group snapshot",
                     content.name());
}

// The selector as kubectl shows it: "app=db,tier=x".
std::string FormatSelector(const Json& selector) {
  std::string text;
  for (const auto& [key, value] : base::json::Map(selector, {"matchLabels"}).items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value.get<std::string>());
  }
  for (const Json& expression : base::json::Array(selector, {"matchExpressions"})) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", expression.dump());
  }
  return text;
}

}  // namespace

GroupController::Outcome GroupController::BindDynamic(const Group& group,
                                                      const Class& group_class) {
  if (const auto content = contents_.Get(GroupContentName(group)); content != nullptr) {
    if (content->existing()) {
      return FailBinding(group, "GroupSnapshotContentMismatch",
                         fmt::format("VolumeGroupSnapshotContent {} is pre-provisioned while "
                                     "expecting a dynamically provisioned one",
                                     content->name()));
    }
    if (!NamesGroup(*content, group) || content->group_uid().empty()) {
      return FailBinding(group, "GroupSnapshotContentMisbound", BoundToAnotherGroup(*content));
    }
    const StatusOr<Group> held = HoldGroup(group);
    if (!held.ok()) return AfterApi(held.status());
    const Status completed = group.ready() ? base::OkStatus() : members_.Complete(*held, *content);
    return completed.ok() ? CopyStatus(*held, *content) : FailMembers(*held, completed);
  }
  if (group.creation_time().empty()) return TakeGroup(group, group_class);
  // No new content is created, because snapshots taken now would have other data under the old
  // name.
  return Fail(group, "GroupSnapshotContentMissing", "VolumeGroupSnapshotContent is missing");
}

StatusOr<std::shared_ptr<const api::VolumeGroupSnapshotClass>> GroupController::ClassOf(
    const Group& group) {
  if (const std::string name = group.class_name(); !name.empty()) {
    return FindClass(context_.client, classes_, name,
                     "volumegroupsnapshotclass.groupsnapshot.storage.k8s.io");
  }
  if (group.deleting() || group.selector() == nullptr || !group.source_content().empty()) {
    return std::shared_ptr<const Class>();
  }
  ASSIGN_OR_RETURN(const Volumes volumes, VolumesOf(group));
  if (!volumes.front().has_csi()) {
    return Error(StatusCode::kInvalidArgument,
                 "snapshotting non-CSI volumes is not supported, group snapshot:{}", group.key());
  }
  const std::string driver = volumes.front().csi().driver();
  std::vector<std::shared_ptr<const Class>> defaults;
  for (auto& candidate : classes_.List()) {
    if (candidate->driver() == driver && candidate->annotation(kDefaultGroupClass) == "true") {
      defaults.push_back(std::move(candidate));
    }
  }
  if (defaults.size() == 1) return defaults.front();
  if (defaults.empty()) {
    return Error(StatusCode::kNotFound, "cannot find default group snapshot class");
  }
  return Error(StatusCode::kFailedPrecondition, "{} default snapshot classes were found",
               defaults.size());
}

StatusOr<GroupController::Claims> GroupController::ListClaims(const Group& group) {
  ASSIGN_OR_RETURN(const api::LabelSelector selector,
                   api::LabelSelector::FromJson(*group.selector()));
  Claims claims;
  kube::ListOptions options;
  do {
    ASSIGN_OR_RETURN(kube::ListResult page,
                     context_.client.List(Claims::value_type::kInfo, group.ns(), options));
    for (Json& item : page.items) {
      Claims::value_type claim(std::move(item));
      if (selector.Matches(claim.labels())) claims.push_back(std::move(claim));
    }
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  std::sort(claims.begin(), claims.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return claims;
}

StatusOr<GroupController::Volumes> GroupController::VolumesOf(const Group& group) {
  ASSIGN_OR_RETURN(const Claims claims, ListClaims(group));
  if (claims.empty()) {
    return Error(StatusCode::kNotFound,
                 "label selector {} for group snapshot not applied to any PVC",
                 FormatSelector(*group.selector()));
  }
  Volumes volumes;
  for (const api::PersistentVolumeClaim& claim : claims) {
    if (claim.phase() != "Bound") {
      return Error(StatusCode::kFailedPrecondition,
                   "the PVC {} is not yet bound to a PV, will not attempt to take a group snapshot",
                   claim.name());
    }
    StatusOr<Volume> volume = kube::Get<Volume>(context_.client, "", claim.volume_name());
    if (!volume.ok() && OfApi(volume.status())) return volume.status();
    if (!volume.ok() || !volume->has_claim_ref() || !RefersTo(*volume, claim)) {
      return Error(StatusCode::kFailedPrecondition, "claim in dataSource not bound or invalid");
    }
    volumes.push_back(*std::move(volume));
  }
  return volumes;
}

GroupController::Outcome GroupController::TakeGroup(const Group& group, const Class& group_class) {
  const auto refuse = [&](const Status& status) {
    if (OfApi(status)) return AfterApi(status);
    return Fail(group, "GroupSnapshotContentCreationFailed",
                fmt::format("failed to create group snapshot content with error {}",
                            base::Message(status)));
  };
  const StatusOr<Volumes> volumes = VolumesOf(group);
  if (!volumes.ok()) {
    return refuse(Error(volumes.status().code(),
                        "failed to get input parameters to create group snapshot {}: \"{}\"",
                        group.name(), base::Message(volumes.status())));
  }
  const StatusOr<Content> wanted = NewContent(group, group_class, *volumes);
  if (!wanted.ok()) return refuse(wanted.status());
  const StatusOr<Group> held = HoldGroup(group);
  if (!held.ok()) return AfterApi(held.status());
  const StatusOr<Content> content = CreateContent(group, *wanted);
  if (!content.ok()) return refuse(content.status());
  // A content that was there already may be ready. Members are not made for a group that is ready.
  const Status completed = members_.Complete(*held, *content);
  return completed.ok() ? CopyStatus(*held, *content) : FailMembers(*held, completed);
}

GroupController::Outcome GroupController::FailMembers(const Group& group, const Status& why) {
  if (OfApi(why) || why.code() == StatusCode::kNotFound) return AfterApi(why);
  return Fail(group, "GroupSnapshotMemberCreationFailed",
              fmt::format("failed to create the volume snapshots of group snapshot {}: {}",
                          group.key(), base::Message(why)));
}

StatusOr<api::VolumeGroupSnapshotContent> GroupController::NewContent(const Group& group,
                                                                      const Class& group_class,
                                                                      const Volumes& volumes) {
  const auto refuse = [&](const std::string& why) {
    context_.events.Record(group.reference(), EventType::kWarning,
                           "CreateGroupSnapshotContentFailed", why);
  };
  Json handles = Json::array();
  for (const Volume& volume : volumes) {
    if (!volume.has_csi()) {
      refuse(fmt::format("Cannot snapshot a non-CSI volume: {}", volume.name()));
      return Error(StatusCode::kInvalidArgument,
                   "cannot snapshot a non-CSI volume for group snapshot {}: {}", group.key(),
                   volume.name());
    }
    if (const std::string driver = volume.csi().driver(); driver != group_class.driver()) {
      const std::string why =
          fmt::format("Volume CSI driver ({}) mismatch with VolumeGroupSnapshotClass ({}) {}: {}",
                      driver, group_class.driver(), group.key(), volume.name());
      refuse(why);
      return Error(StatusCode::kInvalidArgument,
                   "snapshot controller failed to update {} on API "
                   "server: {}",
                   group.key(), why);
    }
    handles.push_back(volume.csi().volume_handle());
  }
  Content content;
  content.Set({"apiVersion"}, Content::kInfo.api_version());
  content.Set({"kind"}, std::string(Content::kInfo.kind));
  content.set_name(GroupContentName(group));
  content.add_finalizer(kGroupContentProtection);
  ASSIGN_OR_RETURN(const api::SecretReference secret,
                   GroupClassSecret(group_class.parameters(), GroupSecret::kSnapshotter,
                                    content.name(), &group));
  if (!secret.empty()) {
    content.set_annotation(kGroupSecretName, secret.name);
    content.set_annotation(kGroupSecretNamespace, secret.ns);
  }
  content.Set({"spec"}, {{"driver", group_class.driver()},
                         {"deletionPolicy", group_class.deletion_policy()},
                         {"volumeGroupSnapshotClassName", group_class.name()},
                         {"source", {{"volumeHandles", std::move(handles)}}},
                         {"volumeGroupSnapshotRef",
                          {{"apiVersion", Group::kInfo.api_version()},
                           {"kind", std::string(Group::kInfo.kind)},
                           {"namespace", group.ns()},
                           {"name", group.name()},
                           {"uid", group.uid()},
                           {"resourceVersion", group.resource_version()}}}});
  return content;
}

StatusOr<api::VolumeGroupSnapshotContent> GroupController::CreateContent(const Group& group,
                                                                         const Content& wanted) {
  StatusOr<Content> created = CreateOrRead(context_.client, wanted);
  if (created.ok() && created->group_uid() != group.uid()) {
    return Error(StatusCode::kFailedPrecondition, "{}", BoundToAnotherGroup(*created));
  }
  if (!created.ok()) {
    if (!OfApi(created.status())) {
      context_.events.Record(group.reference(), EventType::kWarning,
                             "CreateGroupSnapshotContentFailed",
                             fmt::format("Error creating volume group snapshot content object for "
                                         "group snapshot {}: {}.",
                                         group.key(), base::Message(created.status())));
    }
    return created.status();
  }
  contents_.Observe(created->json());
  LOG_INFO("group snapshot {} has the content {}: its driver is asked for it",
           base::Quote(group.key()), base::Quote(created->name()));
  context_.events.Record(group.reference(), EventType::kNormal, "CreatingGroupSnapshot",
                         fmt::format("Waiting for a group snapshot {} to be created by the CSI "
                                     "driver.",
                                     group.key()));
  return created;
}

GroupController::Outcome GroupController::BindExisting(const Group& group) {
  const auto content = contents_.Get(group.source_content());
  if (content == nullptr) {
    return Fail(group, "GroupSnapshotContentMissing", "VolumeGroupSnapshotContent is missing");
  }
  if (!content->existing()) {
    return FailBinding(group, "GroupSnapshotContentMismatch",
                       "VolumeGroupSnapshotContent is dynamically provisioned while expecting a "
                       "pre-provisioned one");
  }
  if (!NamesGroup(*content, group)) {
    return FailBinding(group, "GroupSnapshotContentMisbound", BoundToAnotherGroup(*content));
  }
  const StatusOr<Group> held = HoldGroup(group);
  if (!held.ok()) return AfterApi(held.status());
  if (content->group_uid().empty() && content->deleting()) {
    return Fail(*held, "GroupSnapshotBindFailed",
                "GroupSnapshot failed to bind VolumeGroupSnapshotContent, which is being deleted");
  }
  const StatusOr<Content> bound = BindContent(*held, *content);
  if (bound.ok()) return CopyStatus(*held, *bound);
  if (OfApi(bound.status())) return AfterApi(bound.status());
  return Fail(*held, "GroupSnapshotBindFailed",
              fmt::format("GroupSnapshot failed to bind VolumeGroupSnapshotContent, {}",
                          base::Message(bound.status())));
}

StatusOr<api::VolumeGroupSnapshotContent> GroupController::BindContent(const Group& group,
                                                                       const Content& content) {
  Json spec = Json::object();
  const bool unbound = content.group_uid().empty();
  if (unbound) spec["volumeGroupSnapshotRef"]["uid"] = group.uid();
  if ((unbound || content.class_name().empty()) && !group.class_name().empty()) {
    spec["volumeGroupSnapshotClassName"] = group.class_name();
  }
  const bool hold = !content.deleting() && !content.has_finalizer(kGroupContentProtection);
  if (spec.empty() && !hold) return content;
  Json patch = hold ? FinalizersPatch(content, kGroupContentProtection, "") : Json::object();
  patch["spec"] = std::move(spec);
  return PatchAt(context_.client, contents_, content, std::move(patch));
}

StatusOr<api::VolumeGroupSnapshot> GroupController::HoldGroup(const Group& group) {
  if (group.has_finalizer(kGroupBoundProtection)) return group;
  StatusOr<Group> written =
      PatchAt(context_.client, groups_, group, FinalizersPatch(group, kGroupBoundProtection, ""));
  if (!written.ok() && !OfApi(written.status())) {
    context_.events.Record(group.reference(), EventType::kWarning, "GroupSnapshotFinalizerError",
                           fmt::format("Failed to check and update group snapshot: {}",
                                       base::Message(written.status())));
  }
  return written;
}

GroupController::Outcome GroupController::CopyStatus(const Group& group, const Content& content) {
  const bool ready = content.ready() || group.ready();
  Json status = {{"readyToUse", ready}, {"error", nullptr}};
  if (group.content_name().empty()) {
    status["boundVolumeGroupSnapshotContentName"] = content.name();
  }
  const bool cut = group.creation_time().empty() && !content.creation_time().empty();
  if (cut) status["creationTime"] = content.creation_time();
  if (!ready && !content.error().empty()) {
    status["error"] = base::json::Map(content.json(), {"status", "error"});
  }
  const Json patch = {{"status", std::move(status)}};
  if (!WouldChange(group, patch)) return Outcome::Done();
  const Status written = PatchAt(context_.client, groups_, group, patch, "status").status();
  if (!written.ok()) {
    if (!OfApi(written) && written.code() != StatusCode::kNotFound) {
      context_.events.Record(
          group.reference(), EventType::kWarning, "GroupSnapshotStatusUpdateFailed",
          fmt::format("GroupSnapshot status update failed, {}", base::Message(written)));
    }
    return AfterApi(written);
  }
  if (cut) {
    context_.events.Record(group.reference(), EventType::kNormal, "GroupSnapshotCreated",
                           fmt::format("GroupSnapshot {} was successfully created by the CSI "
                                       "driver.",
                                       group.key()));
  }
  if (ready && !group.ready()) {
    context_.events.Record(group.reference(), EventType::kNormal, "GroupSnapshotReady",
                           fmt::format("GroupSnapshot {} is ready to use.", group.key()));
  }
  return Outcome::Done();
}

}  // namespace berth::controllers::snapshotcontroller
