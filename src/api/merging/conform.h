// Objects as the types of their fields have them: what Kubernetes' decoder makes of a body. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// What a reader that is strict complains of, in Kubernetes' words: `unknown field "spec.foo"`,
// `duplicate field "spec.name"`. At most 100 are kept.
class StrictErrors {
 public:
  void Add(std::string error);
  const std::vector<std::string>& all() const { return errors_; }
  bool empty() const { return errors_.empty(); }
  // `strict decoding error: unknown field "spec.foo", unknown field "spec.bar"`
  std::string Message() const;

 private:
  std::vector<std::string> errors_;
};

struct ConformOptions {
  // A custom resource's fields are only dropped where its schema does not list them: its types are
  // for its validation to check. Its metadata is checked all the same.
  bool custom = false;
};

// Makes `object` conform to `schema`: members that it does not list are dropped and told of; null
// members, which mean "absent", are dropped; quantities and times take their canonical form.
// INVALID_ARGUMENT for a member of a wrong type: `json: cannot unmarshal string into Go struct
// field PodSpec.spec.priority of type int32`.
base::Status Conform(const Schema& schema, base::Json& object, const ConformOptions& options,
                     StrictErrors& strict);

// Tells of the keys that an object in `text` has twice; `parsed` is what it was read as. Costs next
// to nothing where there are none.
void FindDuplicates(std::string_view text, const base::Json& parsed, StrictErrors& strict);

}  // namespace berth::api
