// A compiled rule in CEL, the Common Expression Language: an x-kubernetes-validations rule of a
// custom resource.
//
// It supports all operators, the macros has, all, exists, exists_one, map and filter, and the
// functions of functions.h on booleans, numbers, strings, lists, maps, timestamps, durations,
// quantities and optionals. Compile refuses anything else (unsigned integers, bytes, types as
// values, url(), ip()); nothing is silently skipped.
//
// Pure and thread-safe. Its budget bounds every evaluation.
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
  // `self` is the type of self and oldSelf; null: any. `wanted` is the kind of the result. If
  // `optional_old_self` is true, oldSelf is an optional. INVALID_ARGUMENT: the rule has a mistake;
  // the message has its place and the reason.
  static base::StatusOr<Program> Compile(std::string_view text, const Schema* self, Kind wanted,
                                         bool optional_old_self = false);

  // Whether the rule uses oldSelf. Such a rule can be run only if there is an old value, or with
  // `optional_old_self`.
  bool uses_old_self() const;

  // Evaluates the rule. `old_self` may be null if the rule does not use it, or takes it as an
  // optional. `schema` must be `self` of Compile. RESOURCE_EXHAUSTED: the budget is used up.
  // INVALID_ARGUMENT, in CEL's words: the rule cannot be evaluated, for example "no such key: x".
  base::StatusOr<Value> Run(const Json& self, const Json* old_self, const Schema* schema,
                            Budget& budget) const;

 private:
  explicit Program(std::shared_ptr<const Syntax> syntax, bool optional_old_self)
      : syntax_(std::move(syntax)), optional_old_self_(optional_old_self) {}

  std::shared_ptr<const Syntax> syntax_;
  bool optional_old_self_;
};

}  // namespace berth::api::cel
