#include "apiserver/kinds/spec_checks.h"

#include "api/names.h"
#include "api/quantity.h"

namespace berth::apiserver {

using base::Json;

namespace {

constexpr size_t kMaxDriverName = 63;
constexpr size_t kMaxClassParameters = 512;
constexpr size_t kMaxParameterBytes = 256 * 1024;

// Checks a key, which must be a qualified name like the key of a label.
void CheckKey(const Checked& key) { key.Is(api::CheckQualifiedName); }

// A requirement of a label selector or, with Gt and Lt, of a node selector.
void CheckRequirement(const Checked& requirement, bool of_nodes) {
  const Checked values = requirement["values"];
  const std::string op = requirement["operator"].text();
  if (op == "In" || op == "NotIn") {
    if (!values.given()) values.Required("must be specified when `operator` is 'In' or 'NotIn'");
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (values.given()) {
      values.Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    }
  } else if (of_nodes && (op == "Gt" || op == "Lt")) {
    if (values.json().size() != 1) {
      values.Required("must be specified single value when `operator` is 'Lt' or 'Gt'");
    }
  } else {
    requirement["operator"].Invalid(op, "not a valid selector operator");
  }
  CheckKey(requirement["key"]);
  for (const Checked& value : values.Items()) value.Is(api::CheckLabelValue);
}

void CheckFieldRequirement(const Checked& requirement) {
  const Checked values = requirement["values"];
  const std::string op = requirement["operator"].text();
  if (op != "In" && op != "NotIn") {
    requirement["operator"].Invalid(op, "not a valid selector operator");
  } else if (values.json().size() != 1) {
    values.Required(
        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
  }
  if (requirement["key"].text() != "metadata.name") {
    requirement["key"].Invalid(requirement["key"].text(), "not a valid field selector key");
  }
}

bool IsContainerResource(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
         name.starts_with("hugepages-") || name.find('/') != std::string_view::npos;
}

base::StatusOr<api::Quantity> QuantityOf(const Checked& value) {
  return api::Quantity::Parse(value.json().is_string() ? value.text()
                                                       : base::json::Dump(value.json()));
}

}  // namespace

void CheckLabels(const Checked& labels) {
  for (const auto& [key, label] : labels.Entries()) {
    const Checked at = label.Named(labels.field());
    if (const base::Status valid = api::CheckQualifiedName(key); !valid.ok()) {
      at.Invalid(key, base::Message(valid));
    }
    at.Is(api::CheckLabelValue);
  }
}

void CheckAnnotations(const Checked& annotations) {
  for (const auto& [key, annotation] : annotations.Entries()) {
    // Upper case is allowed in the prefix of an annotation's key.
    if (const base::Status valid = api::CheckQualifiedName(api::LowerCase(key)); !valid.ok()) {
      annotations.Invalid(key, base::Message(valid));
    }
  }
}

void CheckLabelSelector(const Checked& selector) {
  CheckLabels(selector["matchLabels"]);
  for (const Checked& one : selector["matchExpressions"].Items()) CheckRequirement(one, false);
}

void CheckNodeSelectorTerm(const Checked& term) {
  for (const Checked& one : term["matchExpressions"].Items()) CheckRequirement(one, true);
  for (const Checked& one : term["matchFields"].Items()) CheckFieldRequirement(one);
}

void CheckNodeSelector(const Checked& selector) {
  if (!selector.present()) return;
  const Checked terms = selector["nodeSelectorTerms"];
  terms.Needed("must have at least one node selector term");
  for (const Checked& term : terms.Items()) CheckNodeSelectorTerm(term);
}

void CheckTolerations(const Checked& tolerations) {
  for (const Checked& one : tolerations.Items()) {
    const std::string op = one["operator"].text();
    if (one["key"].given()) CheckKey(one["key"]);
    if (!one["key"].given() && op != "Exists") {
      one["operator"].Invalid(op,
                              "operator must be Exists when `key` is empty, which means \"match "
                              "all values and all keys\"");
    }
    if (one["tolerationSeconds"].present() && one["effect"].text() != "NoExecute") {
      one["effect"].Invalid(one["effect"].text(),
                            "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    if (op.empty() || op == "Equal") {
      one["value"].Named(one["operator"].field()).Is(api::CheckLabelValue);
    } else if (op == "Exists") {
      if (one["value"].given()) {
        one["operator"].Invalid(one["value"].text(),
                                "value must be empty when `operator` is 'Exists'");
      }
    } else {
      one["operator"].NotSupported({"Equal", "Exists"});
    }
    one["effect"].OneOfIfGiven({"NoSchedule", "PreferNoSchedule", "NoExecute"});
  }
}

void CheckResourceAmounts(const Checked& amounts) {
  for (const auto& [name, amount] : amounts.Entries()) {
    const base::Status valid = api::CheckQualifiedName(name);
    if (!valid.ok()) {
      amount.Invalid(name, base::Message(valid));
    } else if (!IsContainerResource(name)) {
      amount.Invalid(name, "must be a standard resource for containers");
    }
    amount.NonNegativeQuantity();
  }
}

void CheckResources(const Checked& resources) {
  CheckResourceAmounts(resources["limits"]);
  CheckResourceAmounts(resources["requests"]);
  for (const auto& [name, request] : resources["requests"].Entries()) {
    const Checked limit = resources["limits"][name];
    if (!limit.present()) continue;
    const auto asked = QuantityOf(request);
    const auto most = QuantityOf(limit);
    if (asked.ok() && most.ok() && *asked > *most) {
      request.Named(resources["requests"].field())
          .Invalid(
              fmt::format("must be less than or equal to {} limit of {}", name, most->ToString()));
    }
  }
}

void CheckCsiDriverName(const Checked& name) {
  if (!name.Needed()) return;
  if (name.text().size() > kMaxDriverName) name.TooLong(kMaxDriverName);
  if (const base::Status valid = api::CheckDns1123Subdomain(api::LowerCase(name.text()));
      !valid.ok()) {
    name.Invalid(base::Message(valid));
  }
}

void CheckSecretReference(const Checked& reference) {
  if (!reference.present()) return;
  if (reference["name"].Needed()) reference["name"].Is(api::CheckDns1123Subdomain);
  if (reference["namespace"].Needed()) reference["namespace"].Is(api::CheckDns1123Label);
}

base::Status CheckAnyCaseQualifiedName(std::string_view name) {
  return api::CheckQualifiedName(api::LowerCase(name));
}

base::Status CheckFinalizerName(std::string_view name) {
  const bool standard = name == "kubernetes" || name == "orphan" || name == "foregroundDeletion";
  if (standard || name.find('/') != std::string_view::npos) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument,
                     "name is neither a standard finalizer name nor is it fully qualified");
}

void CheckParameters(const Checked& parameters) {
  if (parameters.json().size() > kMaxClassParameters)
    return parameters.TooLong(kMaxClassParameters);
  size_t bytes = 0;
  for (const auto& [key, value] : parameters.Entries()) {
    if (key.empty()) parameters.Invalid(key, "field can not be empty.");
    bytes += key.size() + value.text().size();
  }
  if (bytes > kMaxParameterBytes) parameters.TooLong(kMaxParameterBytes);
}

void CheckTokenLifetime(const Checked& seconds) {
  constexpr int64_t kShortest = 600;
  constexpr int64_t kLongest = int64_t{1} << 32;
  if (seconds.number(kShortest) < kShortest) {
    seconds.Invalid("may not specify a duration less than 10 minutes");
  } else if (seconds.number(kShortest) > kLongest) {
    seconds.Invalid("may not specify a duration larger than 2^32 seconds");
  }
}

}  // namespace berth::apiserver
