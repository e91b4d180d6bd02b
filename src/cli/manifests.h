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

// Returns all objects of `paths` in order. "-" is standard input, and a folder means its *.yaml,
// *.yml and *.json files by name, without subfolders. The items of a List become objects of their
// own. A namespaced object without a namespace gets `ns`.
//
// An error names the file, and the document of an object that is at fault: INVALID_ARGUMENT (also
// if there is no object at all), NOT_FOUND if a file does not exist, RESOURCE_EXHAUSTED above 16
// MiB or above the limits of api::ParseYaml. Others come from the file system, or from the API,
// which is asked about unknown kinds. Manifest::kind is valid as long as `kinds` lives.
base::StatusOr<std::vector<Manifest>> ReadManifests(const std::vector<std::string>& paths,
                                                    const std::string& ns, KindFinder& kinds);

}  // namespace berth::cli
