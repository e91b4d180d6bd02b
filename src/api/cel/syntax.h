// The syntax tree of a CEL expression, and the parser that makes it.
//
// Macros (has, all, exists, exists_one, map, filter) are nodes of their own; names are resolved to
// slots of the variables: 0 is self, 1 oldSelf, then those of the macros around, outermost first.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/cel/functions.h"
#include "api/cel/value.h"
#include "base/status.h"

namespace berth::api::cel {

enum class NodeKind {
  kLiteral,
  kVariable,  // `slot`
  kSelect,    // child 0 . `name`; optional with `optional`
  kIndex,     // child 0 [ child 1 ]; optional with `optional`
  kHas,       // has(child 0 . `name`)
  kNot,
  kNegate,
  kAnd,  // of all children
  kOr,
  kConditional,  // child 0 ? child 1 : child 2
  kBinary,       // child 0 `name` child 1
  kCall,         // `function` of the children, its receiver first
  kList,
  kMap,  // key, value, key, value ...
  kAll,  // of the items of child 0, bound to `slot`, child 1; so also the next ones
  kExists,
  kExistsOne,
  kMapMacro,  // child 1, or with three children child 2 where child 1 holds
  kFilter,
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  size_t offset = 0;  // in the text, for messages
  std::string name;
  Value literal;
  size_t slot = 0;
  bool optional = false;
  const Function* function = nullptr;
  std::shared_ptr<const RE2> regex;  // of a call whose pattern is a literal
  std::vector<std::unique_ptr<Node>> children;
};

inline constexpr size_t kSelf = 0;
inline constexpr size_t kOldSelf = 1;
inline constexpr size_t kFirstLocal = 2;

struct Syntax {
  std::unique_ptr<Node> root;
  bool uses_old_self = false;
  size_t slots = kFirstLocal;  // variables at most at a time
};

// INVALID_ARGUMENT "ERROR: <input>:LINE:COLUMN: what" for what is no expression, for names that
// are neither variables nor functions, and beyond the bounds (16 KiB, 64 levels).
base::StatusOr<Syntax> Parse(std::string_view text);

// "ERROR: <input>:LINE:COLUMN: `what`".
base::Status ErrorAt(std::string_view text, size_t offset, std::string_view what);

// The property that a name in CEL stands for: "__namespace__" is namespace, "a__dash__b" is a-b.
std::string UnescapeName(std::string_view name);

}  // namespace berth::api::cel
