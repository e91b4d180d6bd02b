// The source from which a CSI driver fills a claim's volume (spec.dataSource).
#pragma once

#include <optional>
#include <string>

#include "api/kinds/snapshots.h"
#include "kube/client.h"

namespace berth::controllers {

// The namespace of the source: that of dataSourceRef, or the claim's own. Who uses another
// namespace's source must know that it is allowed (provisioner/reference_grants.h).
std::string DataSourceNamespace(const api::PersistentVolumeClaim& claim);

// The name of the claim whose volume is copied for `claim`; "" for none.
std::string CloneSourceName(const api::PersistentVolumeClaim& claim);

// The name of the snapshot whose data `claim` gets; "" for none.
std::string SnapshotSourceName(const api::PersistentVolumeClaim& claim);

// The name of the BlockSnapshot whose data `claim` gets; "" for none.
std::string BlockSnapshotSourceName(const api::PersistentVolumeClaim& claim);

// The content of the snapshot that SnapshotSourceName returns. Each call reads it from the API
// instead of an informer, because the cluster may not have the kinds. nullopt: the claim names no
// snapshot, the snapshot has no content, or one of them could not be read.
std::optional<api::VolumeSnapshotContent> SnapshotSourceContent(
    kube::Client& client, const api::PersistentVolumeClaim& claim);

}  // namespace berth::controllers
