// The functions of CEL, besides operators and macros.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <span>
#include <string_view>

#include "api/cel/value.h"
#include "base/status.h"

namespace berth::api::cel {

// The largest size in bytes of a string that an expression may build. A longer one is an error as
// if the budget were used up.
inline constexpr size_t kMaxBuilt = 1 << 20;

struct CallContext {
  Budget& budget;
  const RE2* regex = nullptr;  // compiled from a pattern that is a literal; null: not a literal
};

struct Function {
  std::string_view name;  // "size", "optional.of"
  bool member = false;    // called as receiver.name(...); the receiver is the first argument
  size_t min_args = 0;    // with the receiver
  size_t max_args = 0;
  Kind result = Kind::kAny;
  // The index of the argument that is a regular expression; 0: none.
  size_t pattern = 0;
  // Calls the function. The caller pays for reading those arguments that are strings. A function
  // pays for all else: searches, long results, items of lists. INVALID_ARGUMENT "no such overload":
  // the arguments have other kinds than it takes.
  base::StatusOr<Value> (*run)(CallContext& context, std::span<const Value> args) = nullptr;
};

// `member`: as Function::member. nullptr: there is no such function.
const Function* FindFunction(std::string_view name, bool member);

// INVALID_ARGUMENT "no such overload".
base::Status NoSuchOverload();
// RESOURCE_EXHAUSTED: the budget is used up.
base::Status OverBudget();

// Compiles a regular expression with a bound on memory. INVALID_ARGUMENT: it is malformed or too
// large.
base::StatusOr<std::shared_ptr<const RE2>> CompilePattern(std::string_view pattern);

}  // namespace berth::api::cel
