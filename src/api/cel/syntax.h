// The syntax tree of a CEL expression, and the parser that makes it.
//
// Macros (has, all, exists, exists_one, map, filter) are nodes of their own. Names of variables are
// resolved to slots: 0 is self, 1 is oldSelf, and then come the variables of the enclosing macros,
// the outermost first.
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
  kSelect,    // child 0 . `name`, or child 0 .? `name` if `optional`
  kIndex,     // child 0 [ child 1 ], or child 0 [? child 1 ] if `optional`
  kHas,       // has(child 0 . `name`)
  kNot,
  kNegate,
  kAnd,  // of all children
  kOr,
  kConditional,  // child 0 ? child 1 : child 2
  kBinary,       // child 0 `name` child 1
  kCall,         // `function` of the children; a receiver is the first child
  kList,
  kMap,        // key, value, key, value ...
  kAll,        // the items of child 0 are put into `slot`, and child 1 is evaluated for each
  kExists,     // as kAll
  kExistsOne,  // as kAll
  kMapMacro,   // as kAll; of three children, child 2 is evaluated if child 1 is true
  kFilter,     // as kAll
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  size_t offset = 0;  // in the text, in bytes; for messages
  std::string name;
  Value literal;
  size_t slot = 0;
  bool optional = false;
  const Function* function = nullptr;
  std::shared_ptr<const RE2> regex;  // of a call with a literal pattern; else null
  std::vector<std::unique_ptr<Node>> children;
};

inline constexpr size_t kSelf = 0;
inline constexpr size_t kOldSelf = 1;
inline constexpr size_t kFirstLocal = 2;

struct Syntax {
  std::unique_ptr<Node> root;
  bool uses_old_self = false;
  size_t slots = kFirstLocal;  // the number of slots that the evaluation needs
};

// INVALID_ARGUMENT "ERROR: <input>:LINE:COLUMN: REASON": `text` is malformed, has a name that is
// neither a variable nor a function, or nests or chains too deeply (the parser makes 64 nested
// calls at most). INVALID_ARGUMENT without a place: it is longer than 16 KiB.
base::StatusOr<Syntax> ParseSyntax(std::string_view text);

// INVALID_ARGUMENT "ERROR: <input>:LINE:COLUMN: `what`", for the place at byte `offset` of `text`.
base::Status ErrorAt(std::string_view text, size_t offset, std::string_view what);

// Returns the name of the property that an escaped name in CEL stands for: "namespace" for
// "__namespace__", "a-b" for "a__dash__b".
std::string UnescapeName(std::string_view name);

}  // namespace berth::api::cel
