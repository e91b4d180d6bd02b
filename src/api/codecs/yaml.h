// YAML as Kubernetes reads and writes it: a subset of YAML 1.1 that maps to JSON. Pure.
//
// Reading is bounded in bytes, depth, documents and values. Expanded aliases count, with the bytes
// of their strings, so that a small text cannot become large. Plain scalars have the types that
// they have for kubectl: "yes", "on" and "true" are booleans, 0644 is octal, 1e3 a number, a date a
// string; quoted ones are strings. Keys are strings. Anchors, aliases and merge keys ("<<") work.
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
  // The most bytes of strings and keys that anchors keep and aliases repeat.
  size_t max_copied_bytes = 12 * 1024 * 1024;
  int max_depth = 64;
};

// Returns the documents of `text` without empty ones; JSON is YAML, too. INVALID_ARGUMENT with the
// line: `text` is malformed, nests too deep, has a key twice, or has a value that JSON lacks.
// RESOURCE_EXHAUSTED: another limit is exceeded. If `duplicates` is not null, a key that is there
// twice is no error: its last value counts, and `duplicates` gets a line for it, such as
// `line 3: key "name" already set in map`.
base::StatusOr<std::vector<base::Json>> ParseYaml(std::string_view text,
                                                  const YamlLimits& limits = {},
                                                  std::vector<std::string>* duplicates = nullptr);

// Writes block style with sorted keys, as `kubectl -o yaml`, with a newline at the end. ParseYaml
// returns `value` for it.
std::string ToYaml(const base::Json& value);

}  // namespace berth::api
