// The names by which the snapshot controllers talk through objects, as names.h has them for others,
// and what both of them read out of a VolumeSnapshotClass.
#pragma once

#include <string_view>

#include "api/kinds/snapshots.h"
#include "base/status.h"

namespace berth::controllers {

// On a VolumeSnapshotContent: a snapshot of the driver may exist.
inline constexpr std::string_view kContentProtection =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
// On a VolumeSnapshot: its content goes first.
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
// On contents. CreateSnapshot was called, and how it ended is not known.
inline constexpr std::string_view kBeingCreated =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
// The VolumeSnapshot is on its way out: a content that is deleted, too, may be deleted in the
// driver.
inline constexpr std::string_view kBeingDeleted =
    "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
inline constexpr std::string_view kSnapshotSecretName =
    "snapshot.storage.kubernetes.io/deletion-secret-name";
inline constexpr std::string_view kSnapshotSecretNamespace =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";
// Label: the node whose snapshotter takes care of the content, where each node has one.
inline constexpr std::string_view kManagedByNode = "snapshot.storage.kubernetes.io/managed-by";
// A member of a group of snapshots, which goes with the group alone.
inline constexpr std::string_view kGroupHandle =
    "groupsnapshot.storage.kubernetes.io/volumeGroupSnapshotHandle";

// What a secret of a class is for: taking and deleting snapshots, or listing them.
enum class SnapshotSecret { kSnapshotter, kList };

// The secret that `parameters` of a class name for `use`, templates filled in. Empty if they name
// none. INVALID_ARGUMENT for a name without a namespace or the reverse, an unknown token, and what
// is no name afterwards. `snapshot` may be null, where only the content is known.
base::StatusOr<api::SecretReference> SnapshotClassSecret(const api::Labels& parameters,
                                                         SnapshotSecret use,
                                                         std::string_view content_name,
                                                         const api::VolumeSnapshot* snapshot);

// `parameters` of a class without what is for the controllers: what the driver gets.
// INVALID_ARGUMENT for an unknown key with the prefix csi.storage.k8s.io/.
base::StatusOr<api::Labels> SnapshotDriverParameters(const api::Labels& parameters);

}  // namespace berth::controllers
