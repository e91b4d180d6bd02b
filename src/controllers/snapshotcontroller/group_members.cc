#include "controllers/snapshotcontroller/group_members.h"

#include "base/ids.h"
#include "base/log.h"
#include "controllers/snapshot_names.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotcontroller {

using api::VolumeGroupSnapshot;
using api::VolumeGroupSnapshotContent;
using base::Json;
using base::Status;
using base::StatusOr;

namespace {

constexpr char kVolumesByHandle[] = "snapshotSource";  // "driver/handle" → volumes
constexpr std::string_view kMemberPrefix = "snapshot-";

std::string HashOfMember(const VolumeGroupSnapshot& group, const std::string& volume_handle) {
  return base::Sha256Hex(group.uid() + volume_handle);
}

template <typename T>
T NewObject(const std::string& name) {
  T object;
  object.Set({"apiVersion"}, T::kInfo.api_version());
  object.Set({"kind"}, std::string(T::kInfo.kind));
  object.set_name(name);
  return object;
}

api::VolumeSnapshot NewMember(const VolumeGroupSnapshot& group, const std::string& name,
                              const api::PersistentVolume* volume) {
  auto member = NewObject<api::VolumeSnapshot>(name);
  member.set_ns(group.ns());
  member.add_finalizer(kInGroupProtection);
  member.Set({"metadata", "ownerReferences"}, Json::array({OwnerReferenceTo(group)}));
  // A volume without a PersistentVolume has no claim, but a member has a source nevertheless.
  member.Set({"spec", "source", "persistentVolumeClaimName"},
             volume == nullptr ? "" : volume->claim_name());
  return member;
}

api::VolumeSnapshotContent NewMemberContent(const VolumeGroupSnapshotContent& group_content,
                                            const std::string& name, const std::string& member,
                                            const std::string& volume_handle,
                                            const api::PersistentVolume* volume) {
  auto content = NewObject<api::VolumeSnapshotContent>(name);
  content.set_annotation(kGroupHandle, group_content.group_handle());
  if (group_content.has_annotation(kGroupSecretName)) {
    content.set_annotation(kSnapshotSecretName, group_content.annotation(kGroupSecretName));
    content.set_annotation(kSnapshotSecretNamespace,
                           group_content.annotation(kGroupSecretNamespace));
  }
  Json spec = {{"driver", group_content.driver()},
               {"deletionPolicy", group_content.deletion_policy()},
               {"source", {{"volumeHandle", volume_handle}}},
               {"volumeSnapshotRef",
                {{"kind", std::string(api::VolumeSnapshot::kInfo.kind)},
                 {"namespace", group_content.group_namespace()},
                 {"name", member}}}};
  if (volume != nullptr) spec["sourceVolumeMode"] = volume->volume_mode();
  content.Set({"spec"}, std::move(spec));
  return content;
}

// The object as it is, or as it was created now.
template <typename T>
StatusOr<T> FindOrCreate(kube::Client& client, kube::Informer<T>& informer, const T& wanted) {
  if (const auto known = informer.Get(wanted.key()); known != nullptr) return *known;
  StatusOr<T> created = CreateOrRead(client, wanted);
  if (created.ok()) informer.Observe(created->json());
  return created;
}

}  // namespace

Json OwnerReferenceTo(const VolumeGroupSnapshot& group) {
  return {{"apiVersion", VolumeGroupSnapshot::kInfo.api_version()},
          {"kind", std::string(VolumeGroupSnapshot::kInfo.kind)},
          {"name", group.name()},
          {"uid", group.uid()}};
}

void AddGroupIndex(kube::Informer<api::VolumeSnapshot>& snapshots) {
  snapshots.AddIndex(kSnapshotsByGroup,
                     [](const api::VolumeSnapshot& snapshot) -> std::vector<std::string> {
                       const std::string group = OwningGroup(snapshot);
                       if (group.empty()) return {};
                       return {api::ObjectKey(snapshot.ns(), group)};
                     });
}

std::string MemberContentName(const api::VolumeSnapshot& member) {
  const std::string name = member.name();
  if (!name.starts_with(kMemberPrefix)) return "";
  return fmt::format("snapcontent-{}", name.substr(kMemberPrefix.size()));
}

GroupMembers::GroupMembers(const Context& context)
    : context_(context),
      snapshots_(context.informers.Of<Snapshot>()),
      contents_(context.informers.Of<Content>()),
      volumes_(context.informers.Of<api::PersistentVolume>()) {
  volumes_.AddIndex(kVolumesByHandle, [](const api::PersistentVolume& volume) {
    if (!volume.has_csi()) return std::vector<std::string>{};
    return std::vector<std::string>{
        api::ObjectKey(volume.csi().driver(), volume.csi().volume_handle())};
  });
}

Status GroupMembers::Complete(const VolumeGroupSnapshot& group,
                              const VolumeGroupSnapshotContent& content) {
  if (content.group_handle().empty()) return base::OkStatus();
  for (const Json& info : content.snapshot_infos()) {
    RETURN_IF_ERROR(CompleteMember(group, content, info));
  }
  return base::OkStatus();
}

std::shared_ptr<const api::PersistentVolume> GroupMembers::FindVolume(
    const std::string& driver, const api::VolumeHandle& handle) const {
  auto found = volumes_.ByIndex(kVolumesByHandle, api::ObjectKey(driver, handle.text()));
  if (found.size() == 1) return std::move(found.front());
  LOG_WARNING("{} PersistentVolumes have the handle {} of driver {}: its snapshot names no claim",
              found.size(), handle, base::Quote(driver));
  return nullptr;
}

Status GroupMembers::CompleteMember(const VolumeGroupSnapshot& group,
                                    const VolumeGroupSnapshotContent& content, const Json& info) {
  const std::string volume_handle = base::json::String(info, {"volumeHandle"});
  const std::string hash = HashOfMember(group, volume_handle);
  const std::string name = fmt::format("{}{}", kMemberPrefix, hash);
  const auto volume = FindVolume(content.driver(), api::VolumeHandle(volume_handle));
  ASSIGN_OR_RETURN(const Content made,
                   FindOrCreate(context_.client, contents_,
                                NewMemberContent(content, fmt::format("snapcontent-{}", hash), name,
                                                 volume_handle, volume.get())));
  ASSIGN_OR_RETURN(const Snapshot member,
                   FindOrCreate(context_.client, snapshots_, NewMember(group, name, volume.get())));
  if (member.deleting() || made.deleting()) return base::OkStatus();
  RETURN_IF_ERROR(Bind(member, made));
  if (!made.snapshot_handle().empty()) return base::OkStatus();
  Json status = {{"volumeGroupSnapshotHandle", content.group_handle()}};
  for (const char* field : {"snapshotHandle", "creationTime", "restoreSize", "readyToUse"}) {
    if (info.contains(field)) status[field] = info[field];
  }
  LOG_INFO("snapshot {} of group {} is VolumeSnapshot {}",
           base::Quote(base::json::String(info, {"snapshotHandle"})), base::Quote(group.key()),
           base::Quote(member.key()));
  return Patch(context_.client, contents_, made, {{"status", std::move(status)}}, "status")
      .status();
}

Status GroupMembers::Bind(const Snapshot& snapshot, const Content& content) {
  if (content.snapshot_uid() != snapshot.uid()) {
    RETURN_IF_ERROR(Patch(context_.client, contents_, content,
                          {{"spec", {{"volumeSnapshotRef", {{"uid", snapshot.uid()}}}}}})
                        .status());
  }
  if (!snapshot.content_name().empty()) return base::OkStatus();
  return Patch(context_.client, snapshots_, snapshot,
               {{"status", {{"boundVolumeSnapshotContentName", content.name()}}}}, "status")
      .status();
}

}  // namespace berth::controllers::snapshotcontroller
