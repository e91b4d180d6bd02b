#include "api/cel/checker.h"

namespace berth::api::cel {

using base::Status;
using base::StatusOr;

namespace {

// The type of a part of an expression, as far as it is known.
struct Known {
  Kind kind = Kind::kAny;
  const Schema* schema = nullptr;  // of a member of the document
};

Known KnownOf(const Schema* schema) {
  if (schema == nullptr) return {};
  switch (schema->type) {
    case FieldType::kObject:
    case FieldType::kMap:
      return {Kind::kMap, schema};
    case FieldType::kList:
      return {Kind::kList, schema};
    case FieldType::kString:
      // A time that does not parse would be a string, but the format check has refused it already.
      if (schema->format == "date-time") return {Kind::kTimestamp, schema};
      if (schema->format == "duration") return {Kind::kDuration, schema};
      return {Kind::kString, schema};
    case FieldType::kInteger:
      return {Kind::kInt, schema};
    case FieldType::kNumber:
      return {Kind::kDouble, schema};
    case FieldType::kBoolean:
      return {Kind::kBool, schema};
    default:
      return {Kind::kAny, schema};
  }
}

bool IsNumber(Kind kind) { return kind == Kind::kInt || kind == Kind::kDouble; }

// Whether values of the two kinds may be compared.
bool CanCompare(Kind a, Kind b) {
  return a == Kind::kAny || b == Kind::kAny || a == b || (IsNumber(a) && IsNumber(b)) ||
         a == Kind::kNull || b == Kind::kNull;
}

class Checker {
 public:
  Checker(std::string_view text, const Syntax& syntax, const Schema* self, bool optional_old_self)
      : text_(text), variables_(syntax.slots) {
    variables_[kSelf] = KnownOf(self);
    variables_[kOldSelf] = optional_old_self ? Known{Kind::kOptional, self} : KnownOf(self);
  }

  StatusOr<Known> CheckNode(const Node& node) {
    switch (node.kind) {
      case NodeKind::kLiteral:
        return Known{node.literal.kind()};
      case NodeKind::kVariable:
        return variables_[node.slot];
      case NodeKind::kSelect:
      case NodeKind::kHas:
        return CheckSelect(node);
      case NodeKind::kIndex:
        return CheckIndex(node);
      case NodeKind::kNot:
      case NodeKind::kAnd:
      case NodeKind::kOr:
        return CheckLogic(node);
      case NodeKind::kNegate:
        return CheckNode(*node.children[0]);
      case NodeKind::kConditional:
        return CheckConditional(node);
      case NodeKind::kBinary:
        return CheckBinary(node);
      case NodeKind::kCall:
        RETURN_IF_ERROR(CheckChildren(node));
        return Known{node.function->result};
      case NodeKind::kList:
        RETURN_IF_ERROR(CheckChildren(node));
        return Known{Kind::kList};
      case NodeKind::kMap:
        RETURN_IF_ERROR(CheckChildren(node));
        return Known{Kind::kMap};
      default:
        return CheckMacro(node);
    }
  }

  Status ExpectKind(const Node& node, Kind found, Kind wanted) const {
    if (found == wanted || found == Kind::kAny || wanted == Kind::kAny) return base::OkStatus();
    return Fail(
        node, fmt::format("expected type '{}' but found '{}'", KindName(wanted), KindName(found)));
  }

 private:
  Status Fail(const Node& node, std::string_view what) const {
    return ErrorAt(text_, node.offset, what);
  }

  Status CheckChildren(const Node& node) {
    for (const auto& child : node.children) RETURN_IF_ERROR(CheckNode(*child).status());
    return base::OkStatus();
  }

  StatusOr<Known> CheckSelect(const Node& node) {
    ASSIGN_OR_RETURN(const Known operand, CheckNode(*node.children[0]));
    const bool has = node.kind == NodeKind::kHas;
    const bool optional = node.optional || operand.kind == Kind::kOptional;
    if (operand.kind != Kind::kMap && operand.kind != Kind::kAny &&
        operand.kind != Kind::kOptional) {
      return Fail(
          node, fmt::format("type '{}' does not support field selection", KindName(operand.kind)));
    }
    Known member;
    const Schema* schema = operand.schema;
    if (schema != nullptr && schema->type == FieldType::kObject) {
      const Field* field = schema->Find(node.name);
      // Of an object's metadata, an expression may read only name and generateName.
      const bool hidden = schema->name.ends_with(".ObjectMeta") && node.name != "name" &&
                          node.name != "generateName";
      if (field == nullptr || hidden) {
        return Fail(node, fmt::format("undefined field '{}'", node.name));
      }
      member = KnownOf(field->type);
    } else if (schema != nullptr && schema->type == FieldType::kMap) {
      member = KnownOf(schema->element);
    }
    if (has) return Known{Kind::kBool};
    return optional ? Known{Kind::kOptional, member.schema} : member;
  }

  StatusOr<Known> CheckIndex(const Node& node) {
    ASSIGN_OR_RETURN(const Known operand, CheckNode(*node.children[0]));
    ASSIGN_OR_RETURN(const Known key, CheckNode(*node.children[1]));
    if (operand.kind == Kind::kList && key.kind != Kind::kAny && !IsNumber(key.kind)) {
      return Fail(node, fmt::format("found no matching overload for '_[_]' applied to '(list, {})'",
                                    KindName(key.kind)));
    }
    if (operand.kind != Kind::kList && operand.kind != Kind::kMap && operand.kind != Kind::kAny &&
        operand.kind != Kind::kOptional) {
      return Fail(node, fmt::format("found no matching overload for '_[_]' applied to '({}, {})'",
                                    KindName(operand.kind), KindName(key.kind)));
    }
    const Known item = KnownOf(operand.schema != nullptr ? operand.schema->element : nullptr);
    const bool optional = node.optional || operand.kind == Kind::kOptional;
    return optional ? Known{Kind::kOptional, item.schema} : item;
  }

  StatusOr<Known> CheckLogic(const Node& node) {
    for (const auto& child : node.children) {
      ASSIGN_OR_RETURN(const Known known, CheckNode(*child));
      RETURN_IF_ERROR(ExpectKind(*child, known.kind, Kind::kBool));
    }
    return Known{Kind::kBool};
  }

  StatusOr<Known> CheckConditional(const Node& node) {
    ASSIGN_OR_RETURN(const Known condition, CheckNode(*node.children[0]));
    RETURN_IF_ERROR(ExpectKind(*node.children[0], condition.kind, Kind::kBool));
    ASSIGN_OR_RETURN(const Known then, CheckNode(*node.children[1]));
    ASSIGN_OR_RETURN(const Known otherwise, CheckNode(*node.children[2]));
    if (then.kind != otherwise.kind) return Known{};
    return then.schema == otherwise.schema ? then : Known{then.kind};
  }

  StatusOr<Known> CheckBinary(const Node& node) {
    ASSIGN_OR_RETURN(const Known a, CheckNode(*node.children[0]));
    ASSIGN_OR_RETURN(const Known b, CheckNode(*node.children[1]));
    const std::string& op = node.name;
    const auto mismatch = [&] {
      return Fail(node, fmt::format("found no matching overload for '_{}_' applied to '({}, {})'",
                                    op, KindName(a.kind), KindName(b.kind)));
    };
    if (op == "in") {
      const bool container = b.kind == Kind::kList || b.kind == Kind::kMap || b.kind == Kind::kAny;
      return container ? StatusOr<Known>(Known{Kind::kBool}) : mismatch();
    }
    if (op == "==" || op == "!=") {
      return CanCompare(a.kind, b.kind) ? StatusOr<Known>(Known{Kind::kBool}) : mismatch();
    }
    if (op[0] == '<' || op[0] == '>') {
      const auto ordered = [](Kind kind) {
        return kind != Kind::kNull && kind != Kind::kList && kind != Kind::kMap &&
               kind != Kind::kOptional && kind != Kind::kQuantity;
      };
      const bool fits = CanCompare(a.kind, b.kind) && ordered(a.kind) && ordered(b.kind);
      return fits ? StatusOr<Known>(Known{Kind::kBool}) : mismatch();
    }
    const bool known = a.kind != Kind::kAny && b.kind != Kind::kAny;
    if (!known) return Known{};
    const bool times = a.kind == Kind::kTimestamp || a.kind == Kind::kDuration ||
                       b.kind == Kind::kTimestamp || b.kind == Kind::kDuration;
    if (times) return Known{};
    const bool joins = op == "+" && (a.kind == Kind::kString || a.kind == Kind::kList);
    if (a.kind != b.kind || !(IsNumber(a.kind) || joins)) return mismatch();
    return Known{a.kind};
  }

  StatusOr<Known> CheckMacro(const Node& node) {
    ASSIGN_OR_RETURN(const Known range, CheckNode(*node.children[0]));
    if (range.kind != Kind::kList && range.kind != Kind::kMap && range.kind != Kind::kAny) {
      return Fail(node, fmt::format("expression of type '{}' cannot be range of a comprehension",
                                    KindName(range.kind)));
    }
    Known item;
    if (range.kind == Kind::kMap) item = Known{Kind::kString};
    if (range.kind == Kind::kList && range.schema != nullptr) item = KnownOf(range.schema->element);
    variables_[node.slot] = item;
    const bool map = node.kind == NodeKind::kMapMacro;
    for (size_t i = 1; i < node.children.size(); ++i) {
      ASSIGN_OR_RETURN(const Known known, CheckNode(*node.children[i]));
      if (map && i + 1 == node.children.size()) continue;
      RETURN_IF_ERROR(ExpectKind(*node.children[i], known.kind, Kind::kBool));
    }
    if (node.kind == NodeKind::kFilter) {
      return range.kind == Kind::kList ? range : Known{Kind::kList};
    }
    return Known{map ? Kind::kList : Kind::kBool};
  }

  const std::string_view text_;
  std::vector<Known> variables_;
};

}  // namespace

Status CheckExpression(std::string_view text, const Syntax& syntax, const Schema* self, Kind wanted,
                       bool optional_old_self) {
  Checker checker(text, syntax, self, optional_old_self);
  ASSIGN_OR_RETURN(const Known known, checker.CheckNode(*syntax.root));
  return checker.ExpectKind(*syntax.root, known.kind, wanted);
}

}  // namespace berth::api::cel
