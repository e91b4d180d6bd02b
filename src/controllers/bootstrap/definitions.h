// The CustomResourceDefinitions that Berth's controllers need: those of snapshot.storage.k8s.io/v1,
// from deploy/crds. Berth carries them, so that a standalone one has them at once; in Kubernetes an
// administrator applies the files.
#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "kube/client.h"

namespace berth::controllers::bootstrap {

// The files' texts, YAML.
std::span<const std::string_view> SnapshotDefinitions();

// Creates those that are missing, brings those up to date that Berth created itself (label
// app.kubernetes.io/managed-by), leaves others alone, and waits until all are served.
// DEADLINE_EXCEEDED names those that are not.
base::Status InstallSnapshotDefinitions(kube::Client& client, std::chrono::seconds timeout);

}  // namespace berth::controllers::bootstrap
