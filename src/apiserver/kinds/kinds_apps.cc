// The defaults and rules of DaemonSets and ControllerRevisions, as in Kubernetes.

#include <charconv>

#include "api/selector.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/pod_spec.h"
#include "apiserver/kinds/spec_checks.h"

namespace berth::apiserver {

using base::json::Map;
using base::json::String;

namespace {

// This annotation has the number of templates that the DaemonSet has had. Older clients read it.
constexpr std::string_view kTemplateGeneration = "deprecated.daemonset.template.generation";

// ---- DaemonSet

void DefaultDaemonSet(Json& object) {
  SetDefault(object, {"spec", "updateStrategy", "type"}, "RollingUpdate");
  if (String(object, {"spec", "updateStrategy", "type"}) == "RollingUpdate") {
    SetDefault(object, {"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"}, 1);
    SetDefault(object, {"spec", "updateStrategy", "rollingUpdate", "maxSurge"}, 0);
  }
  SetDefault(object, {"spec", "revisionHistoryLimit"}, 10);
  SetDefault(object, {"spec", "template", "metadata"}, Json::object());
  SetDefault(object, {"spec", "template", "spec"}, Json::object());
  DefaultPodSpec(object["spec"]["template"]["spec"], PodSpecOf::kTemplate);
}

void SetTemplateGeneration(Json& object, int64_t generation) {
  base::json::Set(object, {"metadata", "annotations", kTemplateGeneration},
                  std::to_string(generation));
}

base::Status AdmitDaemonSet(Json& object, Lookup&) {
  SetTemplateGeneration(object, 1);
  return base::OkStatus();
}

base::Status CountTemplates(Json& object, const Json& old, Lookup&) {
  const std::string was = String(old, {"metadata", "annotations", kTemplateGeneration}, "1");
  int64_t generation = 1;
  std::from_chars(was.data(), was.data() + was.size(), generation);
  if (Map(object, {"spec", "template"}) != Map(old, {"spec", "template"})) ++generation;
  SetTemplateGeneration(object, generation);
  return base::OkStatus();
}

bool IsPercent(const Json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  return text.size() > 1 && text.back() == '%' &&
         text.find_first_not_of("0123456789") == text.size() - 1;
}

// Returns a whole number or the number of a percentage, and 0 if the field is absent.
int64_t AmountOf(const Checked& value) {
  if (!IsPercent(value.json())) return value.number();
  int64_t percent = INT64_MAX;
  const std::string text = value.text();
  std::from_chars(text.data(), text.data() + text.size() - 1, percent);
  return percent;
}

void CheckAmount(const Checked& value) {
  if (!value.present()) return;
  if (value.json().is_string() && !IsPercent(value.json())) {
    return value.Invalid(
        "a valid percent string must be a numeric string followed by an ending "
        "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')");
  }
  if (!value.AtLeast(0)) return;
  if (IsPercent(value.json()) && AmountOf(value) > 100)
    value.Invalid("must not be greater than 100%");
}

void CheckStrategy(const Checked& strategy) {
  const std::string type = strategy["type"].text();
  if (type == "OnDelete") return;
  if (type != "RollingUpdate") return strategy.NotSupported({"RollingUpdate", "OnDelete"});
  const Checked surge = strategy["rollingUpdate"]["maxSurge"];
  const Checked unavailable = strategy["rollingUpdate"]["maxUnavailable"];
  CheckAmount(unavailable);
  CheckAmount(surge);
  const bool surges = AmountOf(surge) != 0;
  const bool misses = AmountOf(unavailable) != 0;
  if (surges && misses) surge.Invalid("may not be set when maxUnavailable is non-zero");
  if (!surges && !misses) unavailable.Required("cannot be 0 when maxSurge is 0");
}

void CheckSelectsTemplate(const Checked& spec) {
  const Checked selector = spec["selector"];
  CheckLabelSelector(selector);
  if (!selector.present()) return selector.Required();
  if (!selector["matchLabels"].given() && !selector["matchExpressions"].given()) {
    selector.Invalid("empty selector is invalid for daemonset");
  }
  const Checked labels = spec["template"]["metadata"]["labels"];
  api::Labels texts;
  for (const auto& [key, value] : labels.Entries()) texts.emplace(key, value.text());
  const auto parsed = api::LabelSelector::FromJson(selector.json());
  if (parsed.ok() && !parsed->Matches(texts)) {
    labels.Invalid(labels.present() ? labels.json() : Json::object(),
                   "`selector` does not match template `labels`");
  }
}

void ValidateDaemonSet(const Json& json, FieldErrors& errors) {
  const Checked spec = Checked(json, errors)["spec"];
  CheckSelectsTemplate(spec);
  ValidatePodTemplate(spec["template"]);
  const Checked restart = spec["template"]["spec"]["restartPolicy"];
  if (restart.given() && restart.text() != "Always") restart.NotSupported({"Always"});
  const Checked deadline = spec["template"]["spec"]["activeDeadlineSeconds"];
  if (deadline.present()) deadline.Forbidden("activeDeadlineSeconds in DaemonSet is not Supported");
  spec["minReadySeconds"].AtLeast(0);
  CheckStrategy(spec["updateStrategy"]);
  spec["revisionHistoryLimit"].AtLeast(0);
}

void ValidateDaemonSetUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["spec"]["selector"].Immutable();
}

void ValidateDaemonSetStatus(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked status = Checked(json, old, errors)["status"];
  for (const std::string_view count :
       {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"}) {
    status[count].AtLeast(0);
  }
  const Checked collisions = status["collisionCount"];
  collisions.AtLeast(0);
  if (collisions.old().is_number_integer() &&
      collisions.number() < collisions.old().get<int64_t>()) {
    collisions.Invalid(collisions.number(), "cannot be decremented");
  }
}

// ---- ControllerRevision

void ValidateRevision(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  if (!object["data"].present()) object["data"].Required("data is mandatory");
  object["revision"].AtLeast(0);
}

void ValidateRevisionUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["data"].Immutable();
}

}  // namespace

void AddAppRules(std::vector<KindRules>& rules) {
  KindRules set(api::kinds::kDaemonSet);
  set.counts_generation = true;
  set.status_keeps_metadata = true;
  set.initial_status = {{"currentNumberScheduled", 0},
                        {"numberMisscheduled", 0},
                        {"desiredNumberScheduled", 0},
                        {"numberReady", 0}};
  set.defaults = DefaultDaemonSet;
  set.admit_create = AdmitDaemonSet;
  set.admit_update = CountTemplates;
  set.validate = ValidateDaemonSet;
  set.validate_update = ValidateDaemonSetUpdate;
  set.validate_status = ValidateDaemonSetStatus;
  rules.push_back(set);

  KindRules revision(api::kinds::kControllerRevision);
  revision.validate = ValidateRevision;
  revision.validate_update = ValidateRevisionUpdate;
  rules.push_back(revision);
}

}  // namespace berth::apiserver
