// Reads manifests: files, folders and standard input, in YAML or JSON.
#pragma once

#include <string>
#include <vector>

#include "api/kind_info.h"
#include "api/object.h"
#include "base/status.h"
#include "cli/kind_finder.h"

namespace berth::cli {

struct Manifest {
  const api::KindInfo* kind;
  api::Object object;
  std::string where;  // file and document, for messages
};

// All objects of `paths` in order ("-" is standard input, a folder means its *.yaml, *.yml and
// *.json files), with `ns` filled in where a namespaced object has none; a List is unpacked.
// INVALID_ARGUMENT says where the fault is, before anything is sent. The manifests may be used as
// long as `kinds` lives.
base::StatusOr<std::vector<Manifest>> ReadManifests(const std::vector<std::string>& paths,
                                                    const std::string& ns, KindFinder& kinds);

}  // namespace berth::cli
