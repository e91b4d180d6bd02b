// Converts an object to the types of its fields, as Kubernetes' decoder does with a body. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// The errors of a strict decoder, in Kubernetes' words: `unknown field "spec.foo"`, `duplicate
// field "spec.name"`. Only the first 100 are kept.
class StrictErrors {
 public:
  // Drops the error if a hundred are there.
  void Add(std::string error);
  // Adds `unknown field "spec.foo"`, with the first KiB of a longer path.
  void AddField(std::string_view problem, std::string_view path);
  bool full() const;
  const std::vector<std::string>& all() const { return errors_; }
  bool empty() const { return errors_.empty(); }
  // `strict decoding error: unknown field "spec.foo", unknown field "spec.bar"`
  std::string Message() const;

 private:
  std::vector<std::string> errors_;
};

struct ConformOptions {
  // For a custom resource, fields that its schema does not list are only dropped, because its own
  // validation checks the types. Its metadata is checked all the same.
  bool custom = false;
};

// Makes `object` conform to `schema`: members that the schema does not list are dropped and
// reported; null members, which mean "absent", are dropped; quantities and times take their
// canonical form. INVALID_ARGUMENT: a member has a wrong type: `json: cannot unmarshal string
// into Go struct field PodSpec.spec.priority of type int32`.
base::Status Conform(const Schema& schema, base::Json& object, const ConformOptions& options,
                     StrictErrors& strict);

// Adds an error for each key that an object in `text` has twice. `parsed` is the result of parsing
// `text`, unchanged. The call costs almost nothing if there are none.
void FindDuplicates(std::string_view text, const base::Json& parsed, StrictErrors& strict);

}  // namespace berth::api
