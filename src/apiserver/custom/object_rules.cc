#include "apiserver/custom/object_rules.h"

#include "apiserver/custom/correlate.h"
#include "apiserver/custom/object_check.h"
#include "base/text.h"

namespace berth::apiserver {

using api::cel::Budget;
using api::cel::Kind;
using api::cel::Program;

namespace {

// Kubernetes' bounds on the cost of one rule, and of all rules of one object.
constexpr int64_t kRuleBudget = 1'000'000;
constexpr int64_t kObjectBudget = 10'000'000;
constexpr size_t kMaxMessage = 5 * 1024;

// ---- compiling

class Compiler {
 public:
  explicit Compiler(FieldErrors& errors) : errors_(errors) {}

  // `unmatched` is the path of the list or map below which old and new values cannot be matched;
  // empty if they can be matched.
  void CompileSchema(StructuralSchema& schema, const std::string& field,
                     const std::string& unmatched) {
    if (!schema.has_rules) return;
    for (size_t i = 0; i < schema.rules.size(); ++i) {
      CompileRule(schema, schema.rules[i], fmt::format("{}.x-kubernetes-validations[{}]", field, i),
                  unmatched);
    }
    const std::string below_object = schema.atomic && unmatched.empty() ? field : unmatched;
    for (auto& [name, property] : schema.properties) {
      CompileSchema(*property, fmt::format("{}.properties[{}]", field, name), below_object);
    }
    if (schema.additional != nullptr) {
      CompileSchema(*schema.additional, field + ".additionalProperties", unmatched);
    }
    if (schema.items != nullptr) {
      const bool matched = schema.list_type == api::ListType::kMap;
      CompileSchema(*schema.items, field + ".items",
                    !matched && unmatched.empty() ? field : unmatched);
    }
  }

 private:
  void CompileRule(const StructuralSchema& schema, ValidationRule& rule, const std::string& field,
                   const std::string& unmatched) {
    auto program = Program::Compile(rule.rule, schema.tree, Kind::kBool, rule.optional_old_self);
    if (!program.ok()) {
      errors_.Invalid(field + ".rule", rule.rule,
                      fmt::format("compilation failed: {}", base::Message(program.status())));
    } else {
      rule.program = *std::move(program);
      CheckOldSelf(rule, field, unmatched);
    }
    if (rule.message_expression.empty()) return;
    auto message = Program::Compile(rule.message_expression, schema.tree, Kind::kString,
                                    rule.optional_old_self);
    if (!message.ok()) {
      errors_.Invalid(
          field + ".messageExpression", rule.message_expression,
          fmt::format("messageExpression compilation failed: {}", base::Message(message.status())));
    } else {
      rule.message_program = *std::move(message);
    }
  }

  void CheckOldSelf(const ValidationRule& rule, const std::string& field,
                    const std::string& unmatched) {
    if (rule.program->uses_old_self()) {
      if (unmatched.empty()) return;
      errors_.Invalid(
          field + ".rule", rule.rule,
          fmt::format(
              "oldSelf cannot be used on the uncorrelatable portion of the schema within {}",
              unmatched));
    } else if (rule.optional_old_self) {
      errors_.Invalid(field + ".optionalOldSelf", true,
                      "may not be set if oldSelf is not used in rule");
    }
  }

  FieldErrors& errors_;
};

// ---- running

class Runner {
 public:
  explicit Runner(FieldErrors& errors) : errors_(errors) {}

  void RunRules(const StructuralSchema& schema, const Json& value, const Json* old,
                const std::string& field) {
    if (!schema.has_rules || value.is_null() || over_) return;
    // A rule that does not read the old value is skipped if the value is unchanged.
    const bool unchanged = old != nullptr && *old == value;
    for (const ValidationRule& rule : schema.rules) {
      RunRule(schema, rule, value, old, field, unchanged);
      if (over_) return;
    }
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        const StructuralSchema* known = schema.FindMember(name);
        if (known == nullptr) continue;
        const bool property = schema.FindProperty(name) != nullptr;
        RunRules(*known, member, FindOldMember(schema, old, name),
                 property ? ChildField(field, name) : KeyField(field, name));
      }
    } else if (value.is_array() && schema.items != nullptr) {
      const OldItems old_items(schema, old);
      for (size_t i = 0; i < value.size(); ++i) {
        RunRules(*schema.items, value[i], old_items.Find(value[i]), ItemField(field, i));
      }
    }
  }

 private:
  void RunRule(const StructuralSchema& schema, const ValidationRule& rule, const Json& value,
               const Json* old, const std::string& path, bool unchanged) {
    const std::string field = path.empty() ? "<nil>" : path;
    const std::string shown =
        rule.message.empty() ? std::string(base::Trim(rule.rule)) : rule.message;
    // An accepted definition has no such rule. A definition that reached the store by another way
    // must not let every object pass.
    if (!rule.program) {
      return errors_.Invalid(field, schema.type, fmt::format("rule compile error: {}", shown));
    }
    const bool about_change = rule.program->uses_old_self();
    if (about_change && old == nullptr && !rule.optional_old_self) return;
    if (unchanged && !about_change) return;
    Budget budget(std::min(kRuleBudget, left_));
    const auto result = rule.program->Run(value, old, schema.tree, budget);
    left_ -= std::min(kRuleBudget, left_) - std::max<int64_t>(budget.left(), 0);
    if (!result.ok()) return AddFailure(result.status(), schema, field, shown);
    if (result->is(Kind::kBool) && result->bool_value()) return;
    AddViolation(rule, schema, path, MakeMessage(rule, schema, value, old));
  }

  void AddFailure(const base::Status& status, const StructuralSchema& schema,
                  const std::string& field, const std::string& shown) {
    const std::string_view why = base::Message(status);
    if (status.code() == base::StatusCode::kResourceExhausted) {
      over_ = true;
      return errors_.Invalid(
          field, schema.type,
          left_ <= 0 ? "validation failed due to running out of cost budget, no further validation "
                       "rules will be run"
                     : fmt::format("'{}': no further validation rules will be run due to call cost "
                                   "exceeds limit for rule: {}",
                                   why, shown));
    }
    if (why.starts_with("no such overload")) {
      return errors_.Invalid(field, schema.type,
                             fmt::format("'{}': call arguments did not match a supported operator, "
                                         "function or macro signature for rule: {}",
                                         why, shown));
    }
    errors_.Invalid(field, schema.type, fmt::format("{} evaluating rule: {}", why, shown));
  }

  std::string MakeMessage(const ValidationRule& rule, const StructuralSchema& schema,
                          const Json& value, const Json* old) {
    if (rule.message_program &&
        (old != nullptr || !rule.message_program->uses_old_self() || rule.optional_old_self)) {
      Budget budget(std::min(kRuleBudget, left_));
      const auto made = rule.message_program->Run(value, old, schema.tree, budget);
      left_ -= std::min(kRuleBudget, left_) - std::max<int64_t>(budget.left(), 0);
      if (made.ok() && made->is(Kind::kString)) {
        const std::string text(base::Trim(made->string_value()));
        if (!text.empty() && text.size() <= kMaxMessage && text.find('\n') == std::string::npos) {
          return text;
        }
      }
    }
    if (!rule.message.empty()) return std::string(base::Trim(rule.message));
    return fmt::format("failed rule: {}", base::Trim(rule.rule));
  }

  void AddViolation(const ValidationRule& rule, const StructuralSchema& schema,
                    const std::string& field, const std::string& message) {
    std::string at = field;
    if (!rule.field_path.empty()) {
      const std::string_view path = rule.field_path;
      at = field.empty() && path.starts_with('.') ? std::string(path.substr(1))
                                                  : field + std::string(path);
    }
    if (at.empty()) at = "<nil>";
    if (rule.reason == "FieldValueForbidden") return errors_.Forbidden(at, message);
    if (rule.reason == "FieldValueRequired") return errors_.Required(at, message);
    if (rule.reason == "FieldValueDuplicate") return errors_.Duplicate(at, schema.type);
    errors_.Invalid(at, schema.type, message);
  }

  FieldErrors& errors_;
  int64_t left_ = kObjectBudget;
  bool over_ = false;
};

}  // namespace

void CompileRules(StructuralSchema& schema, const std::string& field, FieldErrors& errors) {
  Compiler(errors).CompileSchema(schema, field, "");
}

void CheckRules(const StructuralSchema& schema, const Json& object, const Json* old,
                FieldErrors& errors) {
  Runner(errors).RunRules(schema, object, old, "");
}

}  // namespace berth::apiserver
