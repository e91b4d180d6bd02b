// The specs of volumes and claims, which several kinds contain: PersistentVolume and
// VolumeAttachment, PersistentVolumeClaim and a pod's ephemeral volume.
#pragma once

#include "apiserver/kinds/checked.h"

namespace berth::apiserver {

// PersistentVolumeClaimSpec
void DefaultClaimSpec(base::Json& spec);
void ValidateClaimSpec(const Checked& spec);

// PersistentVolumeSpec, of an object of its own or inline in a VolumeAttachment.
void ValidateVolumeSpec(const Checked& spec);
void ValidateInlineVolumeSpec(const Checked& spec);

// The volume sources: members of a pod's volume or of a PersistentVolumeSpec, one of which is
// given.
enum class SourcePlace { kPod, kVolume };
bool IsSource(std::string_view member, SourcePlace place);
// Sets the defaults of the source that `volume` has.
void DefaultSource(base::Json& volume);
// Checks that `volume` has exactly one source, and that the source is complete.
void ValidateSource(const Checked& volume, SourcePlace place);

}  // namespace berth::apiserver
