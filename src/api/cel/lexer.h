// Splits a CEL expression into tokens.
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
  size_t offset = 0;  // in the expression, in bytes
  std::string text;   // of a name or symbol
  Value literal;      // the value of true, false, null, a number or a string
};

// INVALID_ARGUMENT as ParseSyntax (syntax.h).
base::StatusOr<std::vector<Token>> Tokenize(std::string_view text);

}  // namespace berth::api::cel
