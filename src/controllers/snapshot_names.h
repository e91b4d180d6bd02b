// The names by which the snapshot controllers talk through objects (names.h has those of the other
// controllers), and what both of them read from a VolumeSnapshotClass.
#pragma once

#include <string_view>

#include "api/kinds/snapshots.h"
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
// On contents: the snapshot belongs to a group, and is deleted only with the group.
inline constexpr std::string_view kGroupHandle =
    "groupsnapshot.storage.kubernetes.io/volumeGroupSnapshotHandle";

// What a secret of a class is for: taking and deleting snapshots, or listing them.
enum class SnapshotSecret { kSnapshotter, kList };

// The secret that `parameters` of a class name for `use`, with its templates filled in. Empty if
// they name none. INVALID_ARGUMENT for a name without a namespace or the reverse, for an unknown
// token, and for a result that is no valid name. `snapshot` is null if only the content is known.
base::StatusOr<api::SecretReference> SnapshotClassSecret(const api::Labels& parameters,
                                                         SnapshotSecret use,
                                                         std::string_view content_name,
                                                         const api::VolumeSnapshot* snapshot);

// The `parameters` of a class that the driver gets: without those for the controllers.
// INVALID_ARGUMENT for an unknown key with the prefix csi.storage.k8s.io/.
base::StatusOr<api::Labels> SnapshotDriverParameters(const api::Labels& parameters);

}  // namespace berth::controllers
