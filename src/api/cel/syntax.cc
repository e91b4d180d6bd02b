#include "api/cel/syntax.h"

#include "api/cel/lexer.h"

namespace berth::api::cel {

using base::Status;
using base::StatusOr;
using NodePtr = std::unique_ptr<Node>;

namespace {

constexpr size_t kMaxBytes = 16 * 1024;
// These limits bound the depth of the tree, because its evaluation is recursive. Nesting makes the
// tree deeper, and so do chains of operators, members and calls ("a.b.c", "1 + 2 + 3").
constexpr int kMaxDepth = 64;  // nested calls of the parser; a pair of parentheses makes two
constexpr int kMaxChain = 32;  // links of one chain
constexpr std::string_view kTooDeep =
    "the expression nests too deeply, or chains too many operators or members";

struct MacroName {
  std::string_view name;
  NodeKind kind;
  size_t min_args;
  size_t max_args;
};
constexpr MacroName kMacros[] = {{"all", NodeKind::kAll, 2, 2},
                                 {"exists", NodeKind::kExists, 2, 2},
                                 {"exists_one", NodeKind::kExistsOne, 2, 2},
                                 {"existsOne", NodeKind::kExistsOne, 2, 2},
                                 {"map", NodeKind::kMapMacro, 2, 3},
                                 {"filter", NodeKind::kFilter, 2, 2}};

// Binary operators from the weakest to the strongest. ?:, || and && are weaker than all of them.
constexpr std::initializer_list<std::string_view> kLevels[] = {
    {"<", "<=", ">", ">=", "==", "!=", "in"}, {"+", "-"}, {"*", "/", "%"}};

// A recursive-descent parser with one function per level of the grammar.
class Parser {
 public:
  Parser(std::string_view text, std::vector<Token> tokens)
      : text_(text), tokens_(std::move(tokens)) {}

  StatusOr<Syntax> ParseAll() {
    ASSIGN_OR_RETURN(syntax_.root, ParseExpression());
    if (Peek().type != Token::Type::kEnd) return UnexpectedToken();
    return std::move(syntax_);
  }

 private:
  // Counts a level of nesting while it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }

   private:
    int& depth_;
  };

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool IsSymbol(std::string_view symbol, size_t ahead = 0) const {
    return Peek(ahead).type == Token::Type::kSymbol && Peek(ahead).text == symbol;
  }
  bool TakeSymbol(std::string_view symbol) {
    if (!IsSymbol(symbol)) return false;
    ++at_;
    return true;
  }
  Status Fail(size_t offset, std::string_view what) const { return ErrorAt(text_, offset, what); }
  Status UnexpectedToken() const {
    const Token& token = Peek();
    if (token.type == Token::Type::kEnd) {
      return Fail(token.offset, "Syntax error: mismatched input '<EOF>'");
    }
    return Fail(token.offset, fmt::format("Syntax error: mismatched input '{}'",
                                          token.text.empty() ? "a literal" : token.text));
  }
  Status ExpectSymbol(std::string_view symbol) {
    return TakeSymbol(symbol) ? base::OkStatus() : UnexpectedToken();
  }

  template <typename... Children>
  static NodePtr MakeNode(NodeKind kind, size_t offset, Children... children) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->offset = offset;
    (node->children.push_back(std::move(children)), ...);
    return node;
  }

  StatusOr<NodePtr> ParseExpression() {
    const Level level(depth_);
    if (depth_ > kMaxDepth) return Fail(Peek().offset, kTooDeep);
    ASSIGN_OR_RETURN(NodePtr condition, ParseOr());
    const size_t offset = Peek().offset;
    if (!TakeSymbol("?")) return condition;
    ASSIGN_OR_RETURN(NodePtr then, ParseOr());
    RETURN_IF_ERROR(ExpectSymbol(":"));
    ASSIGN_OR_RETURN(NodePtr otherwise, ParseExpression());
    return MakeNode(NodeKind::kConditional, offset, std::move(condition), std::move(then),
                    std::move(otherwise));
  }

  StatusOr<NodePtr> ParseOr() {
    ASSIGN_OR_RETURN(NodePtr first, ParseAnd());
    if (!IsSymbol("||")) return first;
    NodePtr node = MakeNode(NodeKind::kOr, Peek().offset, std::move(first));
    while (TakeSymbol("||")) {
      ASSIGN_OR_RETURN(NodePtr next, ParseAnd());
      node->children.push_back(std::move(next));
    }
    return node;
  }

  StatusOr<NodePtr> ParseAnd() {
    ASSIGN_OR_RETURN(NodePtr first, ParseBinary(0));
    if (!IsSymbol("&&")) return first;
    NodePtr node = MakeNode(NodeKind::kAnd, Peek().offset, std::move(first));
    while (TakeSymbol("&&")) {
      ASSIGN_OR_RETURN(NodePtr next, ParseBinary(0));
      node->children.push_back(std::move(next));
    }
    return node;
  }

  StatusOr<NodePtr> ParseBinary(size_t level) {
    if (level == std::size(kLevels)) return ParseUnary();
    ASSIGN_OR_RETURN(NodePtr left, ParseBinary(level + 1));
    for (int chain = 0;;) {
      const auto symbol =
          std::find_if(kLevels[level].begin(), kLevels[level].end(),
                       [&](std::string_view candidate) { return IsSymbol(candidate); });
      if (symbol == kLevels[level].end()) return left;
      const size_t offset = tokens_[at_++].offset;
      ASSIGN_OR_RETURN(NodePtr right, ParseBinary(level + 1));
      left = MakeNode(NodeKind::kBinary, offset, std::move(left), std::move(right));
      left->name = *symbol;
      if (++chain > kMaxChain) return Fail(offset, kTooDeep);
    }
  }

  StatusOr<NodePtr> ParseUnary() {
    const Level level(depth_);
    if (depth_ > kMaxDepth) return Fail(Peek().offset, kTooDeep);
    const size_t offset = Peek().offset;
    if (TakeSymbol("!")) {
      ASSIGN_OR_RETURN(NodePtr operand, ParseUnary());
      return MakeNode(NodeKind::kNot, offset, std::move(operand));
    }
    if (TakeSymbol("-")) {
      const bool literal = Peek().type == Token::Type::kLiteral;
      ASSIGN_OR_RETURN(NodePtr operand, ParseUnary());
      if (literal && operand->kind == NodeKind::kLiteral && operand->literal.is(Kind::kInt)) {
        // The negation is unsigned, because the smallest int has no positive counterpart.
        operand->literal =
            static_cast<int64_t>(-static_cast<uint64_t>(operand->literal.int_value()));
        return operand;
      }
      return MakeNode(NodeKind::kNegate, offset, std::move(operand));
    }
    return ParseMember();
  }

  StatusOr<NodePtr> ParseMember() {
    ASSIGN_OR_RETURN(NodePtr node, ParsePrimary());
    for (int chain = 0;; ++chain) {
      const size_t offset = Peek().offset;
      if (chain > kMaxChain) return Fail(offset, kTooDeep);
      if (TakeSymbol(".")) {
        const bool optional = TakeSymbol("?");
        if (Peek().type != Token::Type::kName) return UnexpectedToken();
        std::string name = tokens_[at_++].text;
        if (!optional && IsSymbol("(")) {
          ASSIGN_OR_RETURN(node, ParseMemberCall(std::move(node), std::move(name), offset));
          continue;
        }
        node = MakeNode(NodeKind::kSelect, offset, std::move(node));
        node->name = UnescapeName(name);
        node->optional = optional;
      } else if (TakeSymbol("[")) {
        const bool optional = TakeSymbol("?");
        ASSIGN_OR_RETURN(NodePtr index, ParseExpression());
        RETURN_IF_ERROR(ExpectSymbol("]"));
        node = MakeNode(NodeKind::kIndex, offset, std::move(node), std::move(index));
        node->optional = optional;
      } else {
        RETURN_IF_ERROR(CheckResolved(*node));
        return node;
      }
    }
  }

  // Refuses a node that begins with a name that is no variable. ParseName accepts such a name,
  // because it may be the first part of a function's name ("optional" of optional.of).
  Status CheckResolved(const Node& node) const {
    const Node* first = &node;
    while (first->kind == NodeKind::kSelect || first->kind == NodeKind::kIndex) {
      first = first->children.front().get();
    }
    if (first->kind != NodeKind::kVariable || first->name.empty()) return base::OkStatus();
    return Fail(first->offset,
                fmt::format("undeclared reference to '{}' (in container '')", first->name));
  }

  StatusOr<NodePtr> ParseMemberCall(NodePtr receiver, std::string name, size_t offset) {
    if (receiver->kind == NodeKind::kVariable && !receiver->name.empty()) {
      return ParseCall(fmt::format("{}.{}", receiver->name, name), nullptr, receiver->offset);
    }
    RETURN_IF_ERROR(CheckResolved(*receiver));
    for (const MacroName& macro : kMacros) {
      if (macro.name == name) return ParseMacro(macro, std::move(receiver), offset);
    }
    return ParseCall(name, std::move(receiver), offset);
  }

  StatusOr<NodePtr> ParseMacro(const MacroName& macro, NodePtr range, size_t offset) {
    RETURN_IF_ERROR(ExpectSymbol("("));
    if (Peek().type != Token::Type::kName) {
      return Fail(Peek().offset, "argument must be a simple name");
    }
    const std::string variable = tokens_[at_++].text;
    NodePtr node = MakeNode(macro.kind, offset, std::move(range));
    node->slot = kFirstLocal + locals_.size();
    locals_.push_back(variable);
    syntax_.slots = std::max(syntax_.slots, kFirstLocal + locals_.size());
    while (TakeSymbol(",")) {
      ASSIGN_OR_RETURN(NodePtr argument, ParseExpression());
      node->children.push_back(std::move(argument));
    }
    locals_.pop_back();
    RETURN_IF_ERROR(ExpectSymbol(")"));
    // The child for the range counts in place of the variable, which is no child.
    const size_t args = node->children.size();
    if (args < macro.min_args || args > macro.max_args) {
      return Fail(offset, fmt::format("'{}' with these arguments is not supported", macro.name));
    }
    return node;
  }

  StatusOr<NodePtr> ParseCall(std::string_view name, NodePtr receiver, size_t offset) {
    RETURN_IF_ERROR(ExpectSymbol("("));
    NodePtr node = MakeNode(NodeKind::kCall, offset);
    node->name = name;
    const bool member = receiver != nullptr;
    if (member) node->children.push_back(std::move(receiver));
    while (!IsSymbol(")")) {
      ASSIGN_OR_RETURN(NodePtr argument, ParseExpression());
      node->children.push_back(std::move(argument));
      if (!TakeSymbol(",")) break;
    }
    RETURN_IF_ERROR(ExpectSymbol(")"));
    if (name == "has" && !member) return MakeHas(std::move(node));
    node->function = FindFunction(name, member);
    const size_t args = node->children.size();
    if (node->function == nullptr) {
      return Fail(offset, fmt::format("undeclared reference to '{}' (in container '')", name));
    }
    if (args < node->function->min_args || args > node->function->max_args) {
      return Fail(offset, fmt::format("found no matching overload for '{}'", name));
    }
    RETURN_IF_ERROR(CompileLiteralPattern(*node));
    return node;
  }

  Status CompileLiteralPattern(Node& call) const {
    if (call.function->pattern == 0) return base::OkStatus();
    const Node& pattern = *call.children[call.function->pattern];
    if (pattern.kind != NodeKind::kLiteral || !pattern.literal.is(Kind::kString)) {
      return base::OkStatus();
    }
    auto regex = CompilePattern(pattern.literal.string_value());
    if (!regex.ok()) return Fail(pattern.offset, base::Message(regex.status()));
    call.regex = *std::move(regex);
    return base::OkStatus();
  }

  StatusOr<NodePtr> MakeHas(NodePtr call) {
    if (call->children.size() != 1 || call->children.front()->kind != NodeKind::kSelect ||
        call->children.front()->optional) {
      return Fail(call->offset, "invalid argument to has() macro");
    }
    NodePtr select = std::move(call->children.front());
    select->kind = NodeKind::kHas;
    return select;
  }

  StatusOr<NodePtr> ParsePrimary() {
    const Token& token = Peek();
    if (token.type == Token::Type::kLiteral) {
      NodePtr node = MakeNode(NodeKind::kLiteral, token.offset);
      node->literal = token.literal;
      ++at_;
      return node;
    }
    if (token.type == Token::Type::kName) return ParseName();
    if (TakeSymbol("(")) {
      ASSIGN_OR_RETURN(NodePtr inner, ParseExpression());
      RETURN_IF_ERROR(ExpectSymbol(")"));
      return inner;
    }
    if (IsSymbol("[")) return ParseItems(NodeKind::kList, "[", "]");
    if (IsSymbol("{")) return ParseItems(NodeKind::kMap, "{", "}");
    return UnexpectedToken();
  }

  StatusOr<NodePtr> ParseName() {
    const Token& token = tokens_[at_++];
    if (IsSymbol("(")) return ParseCall(token.text, nullptr, token.offset);
    NodePtr node = MakeNode(NodeKind::kVariable, token.offset);
    const auto local = std::find(locals_.rbegin(), locals_.rend(), token.text);
    if (local != locals_.rend()) {
      node->slot = kFirstLocal + static_cast<size_t>(locals_.rend() - local) - 1;
    } else if (token.text == "self") {
      node->slot = kSelf;
    } else if (token.text == "oldSelf") {
      node->slot = kOldSelf;
      syntax_.uses_old_self = true;
    } else {
      node->name = token.text;  // no variable; CheckResolved refuses it
    }
    return node;
  }

  StatusOr<NodePtr> ParseItems(NodeKind kind, std::string_view open, std::string_view close) {
    NodePtr node = MakeNode(kind, Peek().offset);
    RETURN_IF_ERROR(ExpectSymbol(open));
    while (!IsSymbol(close)) {
      ASSIGN_OR_RETURN(NodePtr item, ParseExpression());
      node->children.push_back(std::move(item));
      if (kind == NodeKind::kMap) {
        RETURN_IF_ERROR(ExpectSymbol(":"));
        ASSIGN_OR_RETURN(NodePtr value, ParseExpression());
        node->children.push_back(std::move(value));
      }
      if (!TakeSymbol(",")) break;
    }
    RETURN_IF_ERROR(ExpectSymbol(close));
    return node;
  }

  const std::string_view text_;
  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> locals_;
  Syntax syntax_;
};

}  // namespace

Status ErrorAt(std::string_view text, size_t offset, std::string_view what) {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  return base::Error(base::StatusCode::kInvalidArgument, "ERROR: <input>:{}:{}: {}",
                     1 + std::count(before.begin(), before.end(), '\n'),
                     newline == std::string_view::npos ? offset + 1 : offset - newline, what);
}

StatusOr<Syntax> ParseSyntax(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "the expression has {} bytes, the limit is {}", text.size(), kMaxBytes);
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(text));
  return Parser(text, std::move(tokens)).ParseAll();
}

std::string UnescapeName(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"__underscores__", "__"}, {"__dot__", "."}, {"__dash__", "-"}, {"__slash__", "/"}};
  static constexpr std::string_view kKeywords[] = {
      "true", "false",    "null", "in",     "as",  "break", "const",   "continue",  "else",
      "for",  "function", "if",   "import", "let", "loop",  "package", "namespace", "return"};
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    const std::string_view inner = name.substr(2, name.size() - 4);
    for (const std::string_view keyword : kKeywords) {
      if (inner == keyword) return std::string(keyword);
    }
  }
  std::string out;
  while (!name.empty()) {
    bool found = false;
    for (const auto& [escape, text] : kEscapes) {
      if (!name.starts_with(escape)) continue;
      out += text;
      name.remove_prefix(escape.size());
      found = true;
      break;
    }
    if (found) continue;
    out += name.front();
    name.remove_prefix(1);
  }
  return out;
}

}  // namespace berth::api::cel
