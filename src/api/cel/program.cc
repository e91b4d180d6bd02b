#include "api/cel/program.h"

#include "api/cel/checker.h"
#include "api/cel/evaluator.h"
#include "api/cel/syntax.h"

namespace berth::api::cel {

base::StatusOr<Program> Program::Compile(std::string_view text, const Schema* self, Kind wanted,
                                         bool optional_old_self) {
  ASSIGN_OR_RETURN(Syntax syntax, ParseSyntax(text));
  RETURN_IF_ERROR(CheckExpression(text, syntax, self, wanted, optional_old_self));
  return Program(std::make_shared<const Syntax>(std::move(syntax)), optional_old_self);
}

bool Program::uses_old_self() const { return syntax_->uses_old_self; }

base::StatusOr<Value> Program::Run(const Json& self, const Json* old_self, const Schema* schema,
                                   Budget& budget) const {
  std::vector<Value> variables(syntax_->slots);
  variables[kSelf] = Value::FromJson(self, schema);
  if (old_self != nullptr) {
    variables[kOldSelf] = Value::FromJson(*old_self, schema);
    if (optional_old_self_) variables[kOldSelf] = Value::Some(variables[kOldSelf]);
  } else if (optional_old_self_) {
    variables[kOldSelf] = Value::None();
  }
  return Evaluate(*syntax_->root, variables, budget);
}

}  // namespace berth::api::cel
