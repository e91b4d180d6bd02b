// What a person types to name objects, and the options that commands share.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/kind_info.h"
#include "base/status.h"
#include "cli/kind_finder.h"

namespace berth::cli {

using base::Status;
using base::StatusOr;

// Options of every command that talks to the API.
struct ApiOptions {
  std::string data_folder = "/var/lib/berth";
  std::string kubeconfig;  // empty: $KUBECONFIG, else the UNIX socket in data_folder
  std::string ns = "default";
  bool all_namespaces = false;
};

// One kind and the names given for it; no names: all of its objects.
struct Target {
  const api::KindInfo* kind;
  std::vector<std::string> names;
};

// Reads "pods", "pod a b", "pods,pvc", "pod/a pvc/b". INVALID_ARGUMENT names the word that is no
// kind. The targets live as long as `kinds`.
StatusOr<std::vector<Target>> ParseTargets(const std::vector<std::string>& words,
                                           KindFinder& kinds);

// The namespace to send for a kind: none for cluster-scoped ones.
std::string NamespaceFor(const api::KindInfo& kind, const ApiOptions& options);

}  // namespace berth::cli
