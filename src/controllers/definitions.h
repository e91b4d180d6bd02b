// The CustomResourceDefinitions that Berth's controllers need, from deploy/crds: those of
// snapshot.storage.k8s.io/v1, and those of storage.berth.dev/v1alpha1. Berth carries them, so that
// a standalone one has them at once; in Kubernetes an administrator applies the files, or the block
// operator does (blockoperator/agents.h).
#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "kube/client.h"

namespace berth::controllers {

// What a person does not want to have kept bears another value than this.
inline constexpr std::string_view kManagedByProgram = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kBerth = "berth";

// The files' texts, YAML.
std::span<const std::string_view> SnapshotDefinitions();
std::span<const std::string_view> BlockDefinitions();

// Creates those of `texts` that are missing, brings those up to date that Berth created itself
// (label kManagedByProgram), leaves others alone, and waits until all are served. DEADLINE_EXCEEDED
// names those that are not.
base::Status InstallDefinitions(kube::Client& client, std::span<const std::string_view> texts,
                                std::chrono::seconds timeout);

}  // namespace berth::controllers
