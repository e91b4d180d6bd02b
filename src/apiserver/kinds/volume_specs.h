// The specs of volumes and claims, which several kinds contain: PersistentVolume and
// VolumeAttachment, PersistentVolumeClaim and a pod's ephemeral volume.
#pragma once

#include "apiserver/kinds/checked.h"

namespace berth::apiserver {

// PersistentVolumeClaimSpec
void DefaultClaimSpec(base::Json& spec);
inline constexpr Checked::List kAccessModes = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                                               "ReadWriteOncePod"};

void ValidateClaimSpec(const Checked& spec);

// PersistentVolumeSpec, of a PersistentVolume or inline in a VolumeAttachment.
void ValidateVolumeSpec(const Checked& spec);
void ValidateInlineVolumeSpec(const Checked& spec);

// The volume sources: the members of a pod's volume or of a PersistentVolumeSpec of which exactly
// one is set.
enum class SourcePlace { kPod, kVolume };
// Whether `member` ("nfs", "csi") is the name of a volume source there.
bool IsSource(std::string_view member, SourcePlace place);
// Sets the defaults of the source that `volume` has.
void DefaultSource(base::Json& volume);
// Checks that `volume` has exactly one source, and that the source is complete.
void ValidateSource(const Checked& volume, SourcePlace place);
// An iSCSI interface is named after its portal and volume, and has a bounded name. ValidateSource
// checks it for pods; `shown` is the field that errors name.
void CheckIscsiLength(const Checked& iscsi, const std::string& volume, const Checked& shown);

}  // namespace berth::apiserver
