// The CustomResourceDefinitions that Berth's controllers need, from deploy/crds: those of
// snapshot.storage.k8s.io/v1 and groupsnapshot.storage.k8s.io/v1 (SnapshotDefinitions), and those
// of storage.berth.dev/v1alpha1. They are part of the program, so that a standalone Berth has them
// at once. In Kubernetes an administrator applies the files, or the block operator does
// (blockoperator/agents.h).
#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "kube/client.h"

namespace berth::controllers {

// The label of definitions that Berth keeps up to date. A person who gives it another value than
// kBerth keeps their own version of the definition.
inline constexpr std::string_view kManagedByProgram = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kBerth = "berth";

// The files' texts, YAML.
std::span<const std::string_view> SnapshotDefinitions();
std::span<const std::string_view> BlockDefinitions();

// Creates the missing definitions of `texts`, and updates those that Berth created itself (label
// kManagedByProgram). It leaves others as they are, and waits until all are served.
// DEADLINE_EXCEEDED names those that are not, or of which the API could not be asked. Other errors
// come from the API, or from a text that is not YAML.
base::Status InstallDefinitions(kube::Client& client, std::span<const std::string_view> texts,
                                std::chrono::seconds timeout);

}  // namespace berth::controllers
