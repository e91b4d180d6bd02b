// Parses the words with which a person names objects, and defines the options that commands share.
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

// Parses "pods", "pod a b", "pods,pvc" or "pod/a pvc/b". INVALID_ARGUMENT: a word does not name a
// kind, or the words have another form; the message names the word. Other errors come from the API.
// The targets are valid as long as `kinds` lives.
StatusOr<std::vector<Target>> ParseTargets(const std::vector<std::string>& words,
                                           KindFinder& kinds);

// The namespace of a request for objects of `kind`; "" for cluster-scoped kinds.
std::string NamespaceFor(const api::KindInfo& kind, const ApiOptions& options);

}  // namespace berth::cli
