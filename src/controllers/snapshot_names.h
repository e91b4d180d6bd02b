// The names by which the snapshot controllers talk through objects (names.h has those of the other
// controllers), and what both of them read from the classes of snapshots and of their groups.
#pragma once

#include <string_view>

#include "api/kinds/group_snapshots.h"
#include "base/status.h"

namespace berth::controllers {

// On a VolumeSnapshotContent: a snapshot of the driver may exist.
inline constexpr std::string_view kContentProtection =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
// On a VolumeSnapshot: its content must be deleted first.
inline constexpr std::string_view kSnapshotBoundProtection =
    "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
// On a VolumeSnapshot: a volume may be being restored from it.
inline constexpr std::string_view kSnapshotSourceProtection =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
// On a claim: a snapshot of its volume is being taken.
inline constexpr std::string_view kClaimSourceProtection =
    "snapshot.storage.kubernetes.io/pvc-as-source-protection";

inline constexpr std::string_view kDefaultSnapshotClass =
    "snapshot.storage.kubernetes.io/is-default-class";
// On contents: CreateSnapshot was called, and its outcome is not known.
inline constexpr std::string_view kBeingCreated =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
// On contents: the VolumeSnapshot is being deleted. If the content is deleted too, the snapshot may
// be deleted in the driver.
inline constexpr std::string_view kBeingDeleted =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
inline constexpr std::string_view kSnapshotSecretName =
    "snapshot.storage.kubernetes.io/deletion-secret-name";
inline constexpr std::string_view kSnapshotSecretNamespace =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";
// Label on contents: the node whose snapshotter handles the content, where each node has its own.
inline constexpr std::string_view kManagedByNode = "snapshot.storage.kubernetes.io/managed-by";
// On contents: the snapshot was taken with a group, and is deleted only with the group.
inline constexpr std::string_view kGroupHandle =
    "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
// On a VolumeSnapshot that was taken with a group: the group must be deleted first.
inline constexpr std::string_view kInGroupProtection =
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";

// The same for groups: on a VolumeGroupSnapshotContent, a group snapshot of the driver may exist;
// on a VolumeGroupSnapshot, its content must be deleted first.
inline constexpr std::string_view kGroupContentProtection =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
inline constexpr std::string_view kGroupBoundProtection =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
inline constexpr std::string_view kDefaultGroupClass =
    "groupsnapshot.storage.kubernetes.io/is-default-class";
inline constexpr std::string_view kGroupBeingCreated =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
inline constexpr std::string_view kGroupBeingDeleted =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
inline constexpr std::string_view kGroupSecretName =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
inline constexpr std::string_view kGroupSecretNamespace =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";

// Whether the snapshot was taken with a group.
bool IsGroupMember(const api::VolumeSnapshotContent& content);

// What a secret of a class is for: taking and deleting snapshots, or listing them.
enum class SnapshotSecret { kSnapshotter, kList };

// The secret that `parameters` of a class name for `use`, with its templates filled in. Empty if
// they name none. INVALID_ARGUMENT for a name without a namespace or the reverse, for an unknown
// token, and for a result that is no valid name. `snapshot` is null if only the content is known.
base::StatusOr<api::SecretReference> SnapshotClassSecret(const api::Labels& parameters,
                                                         SnapshotSecret use,
                                                         std::string_view content_name,
                                                         const api::VolumeSnapshot* snapshot);

// What a secret of a group's class is for: taking and deleting group snapshots, or reading them.
enum class GroupSecret { kSnapshotter, kGet };

// The same for a VolumeGroupSnapshotClass; `group` is null if only the content is known.
base::StatusOr<api::SecretReference> GroupClassSecret(const api::Labels& parameters,
                                                      GroupSecret use,
                                                      std::string_view content_name,
                                                      const api::VolumeGroupSnapshot* group);

// The `parameters` of a class that the driver gets: without those for the controllers.
// INVALID_ARGUMENT for an unknown key with the prefix csi.storage.k8s.io/.
base::StatusOr<api::Labels> SnapshotDriverParameters(const api::Labels& parameters);

}  // namespace berth::controllers
