#include "apiserver/custom/accepted_names.h"

#include "api/kind_info.h"
#include "apiserver/custom/definition.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Map;
using base::json::String;

UsedNames::UsedNames() {
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    const std::string group(info->group);
    resources_.emplace(group, info->plural);
    resources_.emplace(group, info->singular);
    for (const std::string_view name : info->short_names) resources_.emplace(group, name);
    kinds_.emplace(group, info->kind);
    kinds_.emplace(group, fmt::format("{}List", info->kind));
  }
}

void UsedNames::AddAccepted(const Json& definition) {
  const std::string group = String(definition, {"spec", "group"});
  const Json& names = Map(definition, {"status", "acceptedNames"});
  for (const char* name : {"plural", "singular"}) resources_.emplace(group, String(names, {name}));
  for (const Json& name : Array(names, {"shortNames"})) {
    if (name.is_string()) resources_.emplace(group, name.get<std::string>());
  }
  for (const char* name : {"kind", "listKind"}) kinds_.emplace(group, String(names, {name}));
}

bool UsedNames::HasResource(const std::string& group, const std::string& name) const {
  return resources_.contains({group, name});
}

bool UsedNames::HasKind(const std::string& group, const std::string& name) const {
  return kinds_.contains({group, name});
}

namespace {

// Accepts names one by one. Only the last conflict is reported.
class Acceptance {
 public:
  Acceptance(const Json& definition, const UsedNames& used)
      : used_(used),
        group_(String(definition, {"spec", "group"})),
        wanted_(Map(definition, {"spec", "names"})),
        accepted_(Map(definition, {"status", "acceptedNames"})) {}

  void AcceptAll() {
    AcceptName("plural", "PluralConflict", false);
    AcceptName("singular", "SingularConflict", false);
    AcceptShortNames();
    AcceptName("kind", "KindConflict", true);
    AcceptName("listKind", "ListKindConflict", true);
    CopyField("categories");
  }

  const Json& accepted() const { return accepted_; }
  const std::string& reason() const { return reason_; }
  const std::string& message() const { return message_; }

 private:
  static std::string InUseText(const std::string& name) {
    return fmt::format("\"{}\" is already in use", name);
  }

  void AcceptName(std::string_view field, std::string_view conflict, bool kind) {
    const std::string wanted = String(wanted_, {field});
    if (wanted == String(accepted_, {field})) return;
    if (kind ? used_.HasKind(group_, wanted) : used_.HasResource(group_, wanted)) {
      reason_ = conflict;
      message_ = InUseText(wanted);
      return;
    }
    CopyField(field);
  }

  // Accepts all short names, or keeps the previous ones.
  void AcceptShortNames() {
    const Json& before = Array(accepted_, {"shortNames"});
    std::string conflicts;
    for (const Json& name : Array(wanted_, {"shortNames"})) {
      if (!name.is_string() || std::find(before.begin(), before.end(), name) != before.end())
        continue;
      if (!used_.HasResource(group_, name.get<std::string>())) continue;
      conflicts +=
          fmt::format("{}{}", conflicts.empty() ? "" : ", ", InUseText(name.get<std::string>()));
    }
    if (conflicts.empty()) return CopyField("shortNames");
    reason_ = "ShortNamesConflict";
    message_ = conflicts;
  }

  void CopyField(std::string_view field) {
    const std::string name(field);
    if (wanted_.contains(name)) {
      accepted_[name] = wanted_[name];
    } else {
      accepted_.erase(name);
    }
  }

  const UsedNames& used_;
  const std::string group_;
  const Json wanted_;
  Json accepted_;
  std::string reason_;
  std::string message_;
};

void SetApproval(Json& definition, const std::string& now) {
  const std::string approval =
      String(definition, {"metadata", "annotations", "api-approved.kubernetes.io"});
  DefinitionCondition condition{.type = "KubernetesAPIApprovalPolicyConformant", .time = now};
  switch (ApprovalOf(definition)) {
    case Approval::kNotNeeded:
      return;
    case Approval::kApproved:
      condition.status = "True";
      condition.reason = "ApprovedAnnotation";
      condition.message = "approved in " + approval;
      break;
    case Approval::kBypassed:
      condition.status = "False";
      condition.reason = "UnapprovedAnnotation";
      condition.message = fmt::format("not approved: \"{}\"", approval);
      break;
    default:
      condition.status = "False";
      condition.reason = "MissingAnnotation";
      condition.message =
          "protected groups must have approval annotation \"api-approved.kubernetes.io\", see "
          "https://github.com/kubernetes/enhancements/pull/1111";
  }
  SetCondition(definition, condition);
}

}  // namespace

void AcceptNamesOf(Json& definition, const UsedNames& used, const std::string& now) {
  Acceptance acceptance(definition, used);
  acceptance.AcceptAll();
  base::json::Set(definition, {"status", "acceptedNames"}, acceptance.accepted());
  const bool accepted = acceptance.reason().empty();
  SetCondition(definition, {.type = "NamesAccepted",
                            .status = accepted ? "True" : "False",
                            .reason = accepted ? "NoConflicts" : acceptance.reason(),
                            .message = accepted ? "no conflicts found" : acceptance.message(),
                            .time = now});
  if (!IsConditionTrue(definition, "Established")) {
    SetCondition(definition, {.type = "Established",
                              .status = "False",
                              .reason = accepted ? "Installing" : "NotAccepted",
                              .message = accepted ? "the initial names have been accepted"
                                                  : "not all names are accepted",
                              .time = now});
  }
  SetApproval(definition, now);
}

}  // namespace berth::apiserver
