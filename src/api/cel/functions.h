// The functions of CEL, besides operators and macros.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <span>
#include <string_view>

#include "api/cel/value.h"
#include "base/status.h"

namespace berth::api::cel {

// The longest string that an expression may build: a longer one counts as a used-up budget.
inline constexpr size_t kMaxBuilt = 1 << 20;

struct CallContext {
  Budget& budget;
  const RE2* regex = nullptr;  // of a literal pattern
};

struct Function {
  std::string_view name;  // "size", "optional.of"
  bool member = false;    // receiver.name(...), the receiver being the first argument
  size_t min_args = 0;    // with the receiver
  size_t max_args = 0;
  Kind result = Kind::kAny;
  // Which argument is a regular expression; 0: none.
  size_t pattern = 0;
  // INVALID_ARGUMENT "no such overload" for arguments that it does not take.
  base::StatusOr<Value> (*run)(CallContext& context, std::span<const Value> args) = nullptr;
};

// nullptr if there is none.
const Function* FindFunction(std::string_view name, bool member);

base::Status NoSuchOverload();
base::Status OverBudget();

// Compiled with bounds on memory; INVALID_ARGUMENT if it is no regular expression or too large.
base::StatusOr<std::shared_ptr<const RE2>> CompilePattern(std::string_view pattern);

}  // namespace berth::api::cel
