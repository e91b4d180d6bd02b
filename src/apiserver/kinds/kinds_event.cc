// Event, in its two forms: core, and events.k8s.io, which has stricter rules.

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/stored_form.h"

namespace berth::apiserver {

using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

constexpr size_t kMaxWord = 128;  // for action, reason and reportingInstance
constexpr size_t kMaxNote = 1024;

// The event in core's form. Messages name the fields of core for both forms.
Json ToCoreForm(Json event) {
  ConvertToStored(api::kinds::kEventsEvent, event);
  return event;
}

void CheckWord(const Json& event, std::string_view field, size_t max, bool required,
               FieldErrors& errors) {
  const std::string word = String(event, {field});
  if (required && word.empty()) errors.Required(field);
  if (word.size() > max) {
    errors.Invalid(field, "", fmt::format("can have at most {} characters", max));
  }
}

// Events about objects without a namespace are in "default". Events with an eventTime, which the
// newer form has, may also be in kube-system.
void ValidateCoreEvent(const Json& event, FieldErrors& errors) {
  const std::string ns = String(event, {"metadata", "namespace"});
  const std::string involved = String(event, {"involvedObject", "namespace"});
  const bool timed = !String(event, {"eventTime"}).empty();
  const bool fits = involved.empty() ? ns == "default" || (timed && ns == "kube-system")
                                     : timed || involved == ns;
  if (!fits) {
    errors.Invalid("involvedObject.namespace", involved, "does not match event.namespace");
  }
  if (!timed) return;
  const std::string controller = String(event, {"reportingComponent"});
  if (controller.empty()) errors.Required("reportingController");
  errors.Check("reportingController", controller, api::CheckQualifiedName(controller));
  CheckWord(event, "reportingInstance", kMaxWord, true, errors);
  CheckWord(event, "action", kMaxWord, true, errors);
  CheckWord(event, "reason", kMaxWord, true, errors);
  CheckWord(event, "message", kMaxNote, false, errors);
}

void ValidateSeries(const Json& event, FieldErrors& errors) {
  if (Find(event, {"series"}) == nullptr) return;
  if (Int(event, {"series", "count"}) < 2) {
    errors.Invalid("series.count", "", "should be at least 2");
  }
  if (String(event, {"series", "lastObservedTime"}).empty()) {
    errors.Required("series.lastObservedTime");
  }
}

void ValidateEventsForm(const Json& object, FieldErrors& errors) {
  ValidateCoreEvent(ToCoreForm(object), errors);
}

void ValidateNewEvent(const Json& object, FieldErrors& errors) {
  const Json event = ToCoreForm(object);
  ValidateSeries(event, errors);
  if (String(event, {"eventTime"}).empty()) errors.Required("eventTime");
  const std::string type = String(event, {"type"});
  if (type != "Normal" && type != "Warning") {
    errors.Invalid("type", "", "has invalid value: " + type);
  }
  for (const char* field : {"firstTimestamp", "lastTimestamp"}) {
    if (!String(event, {field}).empty()) errors.Invalid(field, "", "needs to be unset");
  }
  if (Int(event, {"count"}) != 0) errors.Invalid("count", "", "needs to be unset");
  if (!String(event, {"source", "component"}).empty() ||
      !String(event, {"source", "host"}).empty()) {
    errors.Invalid("source", "", "needs to be unset");
  }
}

// Only the series may change.
void ValidateEventUpdate(const Json& object, const Json& before, FieldErrors& errors) {
  const Json event = ToCoreForm(object);
  const Json old = ToCoreForm(before);
  if (Map(event, {"series"}) != Map(old, {"series"})) ValidateSeries(event, errors);
  for (const char* field :
       {"involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
        "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance"}) {
    const bool renamed = std::string_view(field) == "reportingComponent";
    errors.Immutable(renamed ? "reportingController" : field, Find(event, {field}),
                     Find(old, {field}));
  }
}

}  // namespace

void AddEventRules(std::vector<KindRules>& rules) {
  KindRules core(api::kinds::kEvent);
  core.create_on_update = true;
  core.validate = ValidateCoreEvent;
  rules.push_back(core);

  KindRules event(api::kinds::kEventsEvent);
  event.create_on_update = true;
  event.validate = ValidateEventsForm;
  event.validate_create = ValidateNewEvent;
  event.validate_update = ValidateEventUpdate;
  rules.push_back(event);
}

}  // namespace berth::apiserver
