#include "apiserver/kinds/volume_specs.h"

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"

namespace berth::apiserver {

using base::Json;

namespace {

void CheckAccessModes(const Checked& modes) {
  bool alone = false;
  for (const Checked& mode : modes.Items()) {
    mode.Named(modes.field()).OneOf(kAccessModes);
    alone |= mode.text() == "ReadWriteOncePod";
  }
  if (alone && modes.json().size() > 1) {
    modes.Forbidden("may not use ReadWriteOncePod with other access modes");
  }
}

void CheckDataSource(const Checked& source) {
  if (!source.present()) return;
  source["name"].Needed();
  source["kind"].Needed();
  if (source["apiGroup"].given()) {
    source["apiGroup"].Is(api::CheckDns1123Subdomain);
  } else if (source["kind"].text() != "PersistentVolumeClaim") {
    source.Invalid(source["kind"].text(),
                   "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
  }
  source["namespace"].IsIfGiven(api::CheckDns1123Label);
}

void CheckDataSources(const Checked& spec) {
  const Checked source = spec["dataSource"];
  const Checked reference = spec["dataSourceRef"];
  CheckDataSource(source);
  CheckDataSource(reference);
  if (!source.present() || !reference.present()) return;
  if (reference["namespace"].given()) {
    spec.Invalid("dataSource", "may not be specified when dataSourceRef.namespace is specified");
    return;
  }
  for (const std::string_view member : {"apiGroup", "kind", "name"}) {
    if (source[member].text() == reference[member].text()) continue;
    spec.Invalid("dataSource", "must match dataSourceRef");
    return;
  }
}

void CheckCapacity(const Checked& capacity) {
  if (!capacity.given()) capacity.Required();
  if (!capacity["storage"].present() || capacity.json().size() > 1) {
    capacity.NotSupported({"storage"});
  }
  for (const auto& [name, amount] : capacity.Entries()) amount.PositiveQuantity();
}

}  // namespace

void DefaultClaimSpec(Json& spec) { SetDefault(spec, {"volumeMode"}, "Filesystem"); }

void ValidateClaimSpec(const Checked& spec) {
  spec["accessModes"].Needed("at least 1 access mode is required");
  CheckLabelSelector(spec["selector"]);
  CheckAccessModes(spec["accessModes"]);
  const Checked size =
      spec["resources"]["requests"]["storage"].Named(spec.field() + ".resources[storage]");
  if (!size.present()) {
    size.Required();
  } else {
    size.PositiveQuantity();
  }
  spec["storageClassName"].IsIfGiven(api::CheckDns1123Subdomain);
  spec["volumeMode"].OneOfIfGiven({"Block", "Filesystem"});
  CheckDataSources(spec);
  spec["volumeAttributesClassName"].IsIfGiven(api::CheckDns1123Subdomain);
}

void ValidateVolumeSpec(const Checked& spec) {
  spec["accessModes"].Needed();
  CheckAccessModes(spec["accessModes"]);
  CheckCapacity(spec["capacity"]);
  const Checked policy = spec["persistentVolumeReclaimPolicy"];
  policy.OneOfIfGiven({"Delete", "Recycle", "Retain"});
  if (spec["nodeAffinity"].present()) {
    const Checked required = spec["nodeAffinity"]["required"];
    if (!required.present()) required.Required("must specify required node constraints");
    CheckNodeSelector(required);
  }
  ValidateSource(spec, SourcePlace::kVolume);
  if (spec["local"].present() && !spec["nodeAffinity"].present()) {
    spec["nodeAffinity"].Required("Local volume requires node affinity");
  }
  if (spec["hostPath"]["path"].text() == "/" && policy.text() == "Recycle") {
    policy.Forbidden("may not be 'recycle' for a hostPath mount of '/'");
  }
  spec["storageClassName"].IsIfGiven(api::CheckDns1123Subdomain);
  spec["volumeMode"].OneOfIfGiven({"Block", "Filesystem"});
  if (const Checked attributes = spec["volumeAttributesClassName"]; attributes.present()) {
    if (attributes.Needed("an empty string is disallowed")) {
      attributes.Is(api::CheckDns1123Subdomain);
    }
    if (!spec["csi"].present()) {
      spec["csi"].Required("has to be specified when using volumeAttributesClassName");
    }
  }
}

// An inline spec describes an existing volume, so fields that request something are refused.
void ValidateInlineVolumeSpec(const Checked& spec) {
  constexpr std::string_view kContext = "in the context of inline volumes";
  for (const std::string_view member :
       {"claimRef", "capacity", "nodeAffinity", "storageClassName"}) {
    if (spec[member].given()) {
      spec[member].Forbidden(fmt::format("may not be specified {}", kContext));
    }
  }
  if (!spec["csi"].present()) {
    spec["csi"].Required(fmt::format("has to be specified {}", kContext));
  }
  spec["accessModes"].Needed();
  CheckAccessModes(spec["accessModes"]);
  const Checked policy = spec["persistentVolumeReclaimPolicy"];
  if (policy.given() && policy.text() != "Retain") {
    policy.Forbidden(fmt::format("may only be Retain {}", kContext));
  }
  const Checked mode = spec["volumeMode"];
  if (mode.given() && mode.text() != "Filesystem") {
    mode.Forbidden(fmt::format("may not specify volumeMode other than Filesystem {}", kContext));
  }
  ValidateSource(spec, SourcePlace::kVolume);
}

}  // namespace berth::apiserver
