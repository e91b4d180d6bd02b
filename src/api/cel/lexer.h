// CEL's tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cel/value.h"
#include "base/status.h"

namespace berth::api::cel {

struct Token {
  enum class Type { kEnd, kName, kLiteral, kSymbol };
  Type type = Type::kEnd;
  size_t offset = 0;
  std::string text;  // of a name or symbol
  Value literal;     // true, false, null, numbers and strings
};

// INVALID_ARGUMENT as Parse (syntax.h).
base::StatusOr<std::vector<Token>> Tokenize(std::string_view text);

}  // namespace berth::api::cel
