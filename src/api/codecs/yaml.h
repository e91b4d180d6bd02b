// YAML as Kubernetes reads and writes it: a subset of YAML 1.1 that maps to JSON. Pure.
//
// Reading is bounded in bytes, depth, documents and values, with aliases expanded, so that a small
// text cannot become large. Plain scalars mean what kubectl takes them for: "yes", "on" and "true"
// are booleans, 0644 is octal, 1e3 a number, a date a string; quoted ones are strings. Keys are
// strings. Anchors, aliases and merge keys ("<<") work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::api {

struct YamlLimits {
  size_t max_bytes = 3 * 1024 * 1024;
  size_t max_documents = 10000;
  size_t max_values = 1'000'000;  // over all documents, aliases expanded
  int max_depth = 64;
};

// The documents of `text`, empty ones left out; JSON is YAML too. INVALID_ARGUMENT with the line
// for what is malformed, has a key twice, or no JSON counterpart; RESOURCE_EXHAUSTED beyond a
// limit. With `duplicates` the last of a key's values wins, and the list says which were twice:
// `line 3: key "name" already set in map`.
base::StatusOr<std::vector<base::Json>> ParseYaml(std::string_view text,
                                                  const YamlLimits& limits = {},
                                                  std::vector<std::string>* duplicates = nullptr);

// Block style with sorted keys, as `kubectl -o yaml`; ends with a newline. Reading it gives `value`
// again.
std::string ToYaml(const base::Json& value);

}  // namespace berth::api
