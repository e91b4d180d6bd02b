// The members of a group: the VolumeSnapshots, with their contents, of the snapshots that the
// driver took with a VolumeGroupSnapshot. They have the names, owners and annotations that the Go
// program gives them, so that either program finds what the other one made.
//
//   for each snapshot in the status of the group's content, what is missing of:
//     VolumeSnapshotContent "snapcontent-HASH"  names the snapshot, has the group's handle
//     VolumeSnapshot "snapshot-HASH"            owned by the group, held by kInGroupProtection
//     the uid of the second in the first, the name of the first in the status of the second,
//     and what the driver said of the snapshot in the status of the first
//   HASH: SHA-256 of the group's uid and the volume's handle
//
// Nothing that is there already is written again. Thread-safe, for different groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/kinds/group_snapshots.h"
#include "api/kinds/object_ids.h"
#include "controllers/controller.h"

namespace berth::controllers::snapshotcontroller {

// Index: a VolumeGroupSnapshot, "namespace/name" → the VolumeSnapshots that it owns.
inline constexpr char kSnapshotsByGroup[] = "group";
void AddGroupIndex(kube::Informer<api::VolumeSnapshot>& snapshots);

// The name of the content of a group's member, by the member's name; "" for another name.
std::string MemberContentName(const api::VolumeSnapshot& member);

// The entry of metadata.ownerReferences by which the group owns a snapshot.
base::Json OwnerReferenceTo(const api::VolumeGroupSnapshot& group);

class GroupMembers {
 public:
  explicit GroupMembers(const Context& context);

  // Makes what is missing of the members. Errors come from the API.
  base::Status Complete(const api::VolumeGroupSnapshot& group,
                        const api::VolumeGroupSnapshotContent& content);

 private:
  using Content = api::VolumeSnapshotContent;
  using Snapshot = api::VolumeSnapshot;

  // The only volume of the driver with this handle; nullptr: there is none, or there are several.
  std::shared_ptr<const api::PersistentVolume> FindVolume(const std::string& driver,
                                                          const api::VolumeHandle& handle) const;
  base::Status CompleteMember(const api::VolumeGroupSnapshot& group,
                              const api::VolumeGroupSnapshotContent& content,
                              const base::Json& info);
  base::Status Bind(const Snapshot& snapshot, const Content& content);

  const Context context_;
  kube::Informer<Snapshot>& snapshots_;
  kube::Informer<Content>& contents_;
  kube::Informer<api::PersistentVolume>& volumes_;
};

}  // namespace berth::controllers::snapshotcontroller
