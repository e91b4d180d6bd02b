// JSONPath as CustomResourceDefinitions use it: ".spec.x",
// ".status.conditions[?(@.type==\"Ready\")] .status", ".metadata.annotations['a/b']",
// ".spec.items[0].name", ".spec.items[*].name".
//
// Immutable and thread-safe. Bounded: a path has at most 64 steps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

class JsonPath {
 public:
  // INVALID_ARGUMENT if `text` is no path, or has parts that are not supported ("..", slices,
  // functions).
  static base::StatusOr<JsonPath> Parse(std::string_view text);

  // The first value that the path leads to; nullptr if there is none.
  const base::Json* FindFirst(const base::Json& object) const;

 private:
  struct Step {
    enum class Type { kField, kIndex, kAll, kFilter };
    Type type = Type::kField;
    std::string name;                // kField
    int64_t index = 0;               // kIndex; from the end if negative
    std::vector<std::string> field;  // kFilter: of the item, "@.a.b"
    std::string op;                  // kFilter: "==", ...; empty: the field exists
    base::Json value;                // kFilter
  };
  class Parser;

  static const base::Json* FindValue(const base::Json& at, const Step* step, const Step* end);
  static bool Matches(const Step& filter, const base::Json& item);

  std::vector<Step> steps_;
};

}  // namespace berth::apiserver
