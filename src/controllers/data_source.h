// What a claim's volume is to be filled from, where a CSI driver fills it (spec.dataSource).
#pragma once

#include <optional>
#include <string>

#include "api/kinds/snapshots.h"
#include "kube/client.h"

namespace berth::controllers {

// The claim that `claim` is to be a copy of, in its own namespace; "" for none.
std::string CloneSourceName(const api::PersistentVolumeClaim& claim);

// The snapshot that `claim` is to be filled from, in its own namespace; "" for none.
std::string SnapshotSourceName(const api::PersistentVolumeClaim& claim);

// The content of that snapshot, read when it is asked for: a cluster without the kinds costs
// nothing. None: there is none, or it is not known.
std::optional<api::VolumeSnapshotContent> SnapshotSourceContent(
    kube::Client& client, const api::PersistentVolumeClaim& claim);

}  // namespace berth::controllers
