#include "api/cel/evaluator.h"

#include <cmath>

namespace berth::api::cel {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

std::string KeyText(const Value& key) {
  if (key.is(Kind::kString)) return key.string_value();
  if (key.is(Kind::kInt)) return std::to_string(key.int_value());
  return std::string(KindName(key.kind()));
}

class Evaluator {
 public:
  Evaluator(std::vector<Value>& variables, Budget& budget)
      : variables_(variables), budget_(budget) {}

  StatusOr<Value> EvaluateNode(const Node& node) {
    if (!budget_.Spend(1)) return OverBudget();
    switch (node.kind) {
      case NodeKind::kLiteral:
        return node.literal;
      case NodeKind::kVariable:
        return variables_[node.slot];
      case NodeKind::kSelect:
        return EvaluateSelect(node);
      case NodeKind::kIndex:
        return EvaluateIndex(node);
      case NodeKind::kHas:
        return EvaluateHas(node);
      case NodeKind::kNot: {
        ASSIGN_OR_RETURN(const Value value, EvaluateNode(*node.children[0]));
        if (!value.is(Kind::kBool)) return NoSuchOverload();
        return !value.bool_value();
      }
      case NodeKind::kNegate:
        return EvaluateNegate(node);
      case NodeKind::kAnd:
        return EvaluateLogic(node, false);
      case NodeKind::kOr:
        return EvaluateLogic(node, true);
      case NodeKind::kConditional: {
        ASSIGN_OR_RETURN(const Value condition, EvaluateNode(*node.children[0]));
        if (!condition.is(Kind::kBool)) return NoSuchOverload();
        return EvaluateNode(*node.children[condition.bool_value() ? 1 : 2]);
      }
      case NodeKind::kBinary:
        return EvaluateBinary(node);
      case NodeKind::kCall:
        return EvaluateCall(node);
      case NodeKind::kList: {
        List items;
        for (const auto& child : node.children) {
          ASSIGN_OR_RETURN(Value item, EvaluateNode(*child));
          items.push_back(std::move(item));
        }
        return Value::Of(std::move(items));
      }
      case NodeKind::kMap:
        return EvaluateMap(node);
      case NodeKind::kAll:
        return EvaluateQuantifier(node, false);
      case NodeKind::kExists:
        return EvaluateQuantifier(node, true);
      case NodeKind::kExistsOne:
        return EvaluateExistsOne(node);
      case NodeKind::kMapMacro:
      case NodeKind::kFilter:
        return EvaluateTransform(node);
    }
    return EvaluationError("unknown expression");
  }

 private:
  // The member or item `key` of `operand`. A member of an optional is an optional, and an empty
  // optional has empty members.
  StatusOr<Value> FindMember(const Node& node, const Value& operand, const Value& key) {
    if (operand.is(Kind::kOptional)) {
      if (operand.optional_value() == nullptr) return Value::None();
      auto found = FindItem(*operand.optional_value(), key);
      if (!found.ok()) return found.status();
      return *found ? Value::Some(**std::move(found)) : Value::None();
    }
    ASSIGN_OR_RETURN(auto found, FindItem(operand, key));
    if (node.optional) return found ? Value::Some(*std::move(found)) : Value::None();
    if (found) return *std::move(found);
    if (key.is(Kind::kString) && !budget_.SpendText(key.string_value().size())) return OverBudget();
    if (operand.is(Kind::kList))
      return EvaluationError(fmt::format("index out of bounds: {}", KeyText(key)));
    return EvaluationError(fmt::format("no such key: {}", KeyText(key)));
  }

  // nullopt: there is no such member or item.
  static StatusOr<std::optional<Value>> FindItem(const Value& operand, const Value& key) {
    if (operand.is(Kind::kMap)) return operand.member(key);
    if (!operand.is(Kind::kList) || !(key.is(Kind::kInt) || key.is(Kind::kDouble))) {
      return NoSuchOverload();
    }
    const int64_t index = key.is(Kind::kInt) ? key.int_value() : std::llround(key.double_value());
    if (index < 0 || static_cast<uint64_t>(index) >= operand.size()) return std::optional<Value>();
    return std::optional<Value>(operand.item(static_cast<size_t>(index)));
  }

  StatusOr<Value> EvaluateSelect(const Node& node) {
    ASSIGN_OR_RETURN(const Value operand, EvaluateNode(*node.children[0]));
    if (operand.is(Kind::kList)) return NoSuchOverload();
    return FindMember(node, operand, Value::ReferToText(node.name));
  }

  StatusOr<Value> EvaluateIndex(const Node& node) {
    ASSIGN_OR_RETURN(const Value operand, EvaluateNode(*node.children[0]));
    ASSIGN_OR_RETURN(const Value key, EvaluateNode(*node.children[1]));
    return FindMember(node, operand, key);
  }

  StatusOr<Value> EvaluateHas(const Node& node) {
    ASSIGN_OR_RETURN(Value operand, EvaluateNode(*node.children[0]));
    if (operand.is(Kind::kOptional)) {
      if (operand.optional_value() == nullptr) return false;
      operand = Value(*operand.optional_value());
    }
    if (!operand.is(Kind::kMap)) return NoSuchOverload();
    return operand.field(node.name).has_value();
  }

  StatusOr<Value> EvaluateNegate(const Node& node) {
    ASSIGN_OR_RETURN(const Value value, EvaluateNode(*node.children[0]));
    if (value.is(Kind::kDouble)) return -value.double_value();
    if (value.is(Kind::kDuration)) return -value.duration_value();
    if (!value.is(Kind::kInt)) return NoSuchOverload();
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, value.int_value(), &negated)) {
      return EvaluationError("integer overflow");
    }
    return negated;
  }

  // && (`decisive` is false) and || (`decisive` is true). If one operand decides the result, the
  // errors of the others do not count.
  StatusOr<Value> EvaluateLogic(const Node& node, bool decisive) {
    return FindDecisive(node.children, decisive,
                        [&](const auto& child) { return EvaluateNode(*child); });
  }

  template <typename Operands, typename Evaluate>
  StatusOr<Value> FindDecisive(Operands&& operands, bool decisive, const Evaluate& evaluate) {
    Status failure = base::OkStatus();
    for (auto& operand : operands) {
      const StatusOr<Value> value = evaluate(operand);
      const Status status = !value.ok()               ? value.status()
                            : !value->is(Kind::kBool) ? NoSuchOverload()
                                                      : base::OkStatus();
      if (status.code() == StatusCode::kResourceExhausted) return status;
      if (status.ok() && value->bool_value() == decisive) return decisive;
      if (failure.ok()) failure = status;
    }
    if (!failure.ok()) return failure;
    return !decisive;
  }

  StatusOr<Value> EvaluateBinary(const Node& node) {
    ASSIGN_OR_RETURN(const Value a, EvaluateNode(*node.children[0]));
    ASSIGN_OR_RETURN(const Value b, EvaluateNode(*node.children[1]));
    const std::string& op = node.name;
    if (op == "==" || op == "!=") {
      const bool same = a.Equals(b, budget_);
      if (budget_.left() < 0) return OverBudget();
      return same == (op == "==");
    }
    if (op == "in") return EvaluateIn(a, b);
    if (op[0] == '<' || op[0] == '>') return EvaluateOrder(op, a, b);
    return EvaluateArithmetic(op[0], a, b);
  }

  StatusOr<Value> EvaluateIn(const Value& wanted, const Value& container) {
    if (container.is(Kind::kMap)) return container.member(wanted).has_value();
    if (!container.is(Kind::kList)) return NoSuchOverload();
    for (size_t i = 0; i < container.size(); ++i) {
      const bool same = container.item(i).Equals(wanted, budget_);
      if (budget_.left() < 0) return OverBudget();
      if (same) return true;
    }
    return false;
  }

  StatusOr<Value> EvaluateOrder(std::string_view op, const Value& a, const Value& b) {
    const auto order = Compare(a, b, budget_);
    if (budget_.left() < 0) return OverBudget();
    if (!order) return NoSuchOverload();
    if (op == "<") return *order < 0;
    if (op == "<=") return *order <= 0;
    if (op == ">") return *order > 0;
    return *order >= 0;
  }

  StatusOr<Value> EvaluateArithmetic(char op, const Value& a, const Value& b) {
    if (a.is(Kind::kInt) && b.is(Kind::kInt))
      return CalculateInts(op, a.int_value(), b.int_value());
    if (a.is(Kind::kDouble) && b.is(Kind::kDouble)) {
      return CalculateDoubles(op, a.double_value(), b.double_value());
    }
    if (op == '+' && a.is(Kind::kString) && b.is(Kind::kString)) {
      const size_t size = a.string_value().size() + b.string_value().size();
      if (size > kMaxBuilt || !budget_.SpendText(size)) return OverBudget();
      return a.string_value() + b.string_value();
    }
    if (op == '+' && a.is(Kind::kList) && b.is(Kind::kList)) {
      if (!budget_.Spend(a.size() + b.size())) return OverBudget();
      List joined = a.items();
      for (Value& item : b.items()) joined.push_back(std::move(item));
      return Value::Of(std::move(joined));
    }
    return CalculateTimes(op, a, b);
  }

  static StatusOr<Value> CalculateInts(char op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
      case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
      case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
      default:
        if (b == 0) return EvaluationError(op == '/' ? "division by zero" : "modulus by zero");
        overflow = a == INT64_MIN && b == -1;
        if (!overflow) result = op == '/' ? a / b : a % b;
    }
    if (overflow) return EvaluationError("integer overflow");
    return result;
  }

  static StatusOr<Value> CalculateDoubles(char op, double a, double b) {
    switch (op) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '/':
        return a / b;
      default:
        return NoSuchOverload();
    }
  }

  static StatusOr<Value> CalculateTimes(char op, const Value& a, const Value& b) {
    using std::chrono::nanoseconds;
    if (op != '+' && op != '-') return NoSuchOverload();
    if (op == '+' && a.is(Kind::kDuration) && b.is(Kind::kTimestamp))
      return CalculateTimes(op, b, a);
    const bool shift = b.is(Kind::kDuration);
    if (!(a.is(Kind::kTimestamp) || (a.is(Kind::kDuration) && shift)) ||
        !(shift || (b.is(Kind::kTimestamp) && op == '-'))) {
      return NoSuchOverload();
    }
    const auto count = [](const Value& value) {
      return value.is(Kind::kDuration) ? value.duration_value().count()
                                       : value.time_value().time_since_epoch().count();
    };
    ASSIGN_OR_RETURN(const Value sum, CalculateInts(op, count(a), count(b)));
    if (a.is(Kind::kTimestamp) && shift) return base::WallTime(nanoseconds(sum.int_value()));
    return nanoseconds(sum.int_value());
  }

  StatusOr<Value> EvaluateCall(const Node& node) {
    std::vector<Value> args;
    for (const auto& child : node.children) {
      ASSIGN_OR_RETURN(Value value, EvaluateNode(*child));
      // A function reads each text that it gets, and most copy it.
      if (value.is(Kind::kString) && !budget_.SpendText(value.string_value().size())) {
        return OverBudget();
      }
      args.push_back(std::move(value));
    }
    CallContext context{.budget = budget_, .regex = node.regex.get()};
    return node.function->run(context, args);
  }

  StatusOr<Value> EvaluateMap(const Node& node) {
    Entries entries;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      ASSIGN_OR_RETURN(Value key, EvaluateNode(*node.children[i]));
      ASSIGN_OR_RETURN(Value value, EvaluateNode(*node.children[i + 1]));
      if (!key.is(Kind::kString) && !key.is(Kind::kInt) && !key.is(Kind::kBool)) {
        return EvaluationError("unsupported key type");
      }
      entries.emplace_back(std::move(key), std::move(value));
    }
    return Value::Of(std::move(entries));
  }

  // The list that a macro iterates over.
  StatusOr<List> EvaluateRange(const Node& node) {
    ASSIGN_OR_RETURN(const Value range, EvaluateNode(*node.children[0]));
    if (!range.is(Kind::kList) && !range.is(Kind::kMap)) return NoSuchOverload();
    if (!budget_.Spend(range.size())) return OverBudget();
    return range.items();
  }

  // Evaluates child `child` of a macro for one item.
  StatusOr<Value> EvaluateFor(const Node& node, Value item, size_t child) {
    variables_[node.slot] = std::move(item);
    return EvaluateNode(*node.children[child]);
  }

  // exists (`decisive` is true) and all (`decisive` is false), which treat errors as || and && do.
  StatusOr<Value> EvaluateQuantifier(const Node& node, bool decisive) {
    ASSIGN_OR_RETURN(List items, EvaluateRange(node));
    return FindDecisive(items, decisive,
                        [&](Value& item) { return EvaluateFor(node, std::move(item), 1); });
  }

  StatusOr<Value> EvaluateExistsOne(const Node& node) {
    ASSIGN_OR_RETURN(List items, EvaluateRange(node));
    size_t found = 0;
    for (Value& item : items) {
      ASSIGN_OR_RETURN(const Value value, EvaluateFor(node, std::move(item), 1));
      if (!value.is(Kind::kBool)) return NoSuchOverload();
      found += value.bool_value() ? 1 : 0;
    }
    return found == 1;
  }

  StatusOr<Value> EvaluateTransform(const Node& node) {
    ASSIGN_OR_RETURN(const List items, EvaluateRange(node));
    const bool map = node.kind == NodeKind::kMapMacro;
    const bool filtered = !map || node.children.size() == 3;
    List out;
    for (const Value& item : items) {
      if (filtered) {
        ASSIGN_OR_RETURN(const Value keep, EvaluateFor(node, item, 1));
        if (!keep.is(Kind::kBool)) return NoSuchOverload();
        if (!keep.bool_value()) continue;
      }
      if (!map) {
        out.push_back(item);
        continue;
      }
      ASSIGN_OR_RETURN(Value value, EvaluateFor(node, item, node.children.size() - 1));
      out.push_back(std::move(value));
    }
    return Value::Of(std::move(out));
  }

  std::vector<Value>& variables_;
  Budget& budget_;
};

}  // namespace

StatusOr<Value> Evaluate(const Node& root, std::vector<Value>& variables, Budget& budget) {
  return Evaluator(variables, budget).EvaluateNode(root);
}

}  // namespace berth::api::cel
