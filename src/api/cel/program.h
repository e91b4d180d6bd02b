// A rule in CEL, the Common Expression Language, compiled: the x-kubernetes-validations of custom
// resources.
//
// It supports all operators, the macros has, all, exists, exists_one, map and filter, and the
// functions of functions.h on booleans, numbers, strings, lists, maps, timestamps, durations,
// quantities and optionals. Compile refuses anything else (unsigned integers, bytes, types as
// values, url(), ip()); nothing is silently skipped.
//
// Pure and thread-safe; every evaluation is bounded by its budget.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/cel/value.h"
#include "api/schema/schema.h"
#include "base/status.h"

namespace berth::api::cel {

struct Syntax;

class Program {
 public:
  // `self` is the type of self and oldSelf; null: any. `wanted` is the kind of the result. With
  // `optional_old_self`, oldSelf is an optional. INVALID_ARGUMENT with the place and the reason.
  static base::StatusOr<Program> Compile(std::string_view text, const Schema* self, Kind wanted,
                                         bool optional_old_self = false);

  // Whether the rule uses oldSelf: then it has no meaning without an old value.
  bool uses_old_self() const;

  // `old_self` may be null for a program that doesn't use it, or takes it as an optional. The
  // schema must be that of Compile. RESOURCE_EXHAUSTED when the budget is used up; otherwise
  // INVALID_ARGUMENT with CEL's words: "no such key: x".
  base::StatusOr<Value> Run(const Json& self, const Json* old_self, const Schema* schema,
                            Budget& budget) const;

 private:
  explicit Program(std::shared_ptr<const Syntax> syntax, bool optional_old_self)
      : syntax_(std::move(syntax)), optional_old_self_(optional_old_self) {}

  std::shared_ptr<const Syntax> syntax_;
  bool optional_old_self_;
};

}  // namespace berth::api::cel
