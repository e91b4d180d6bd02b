// Defaults and checks of each volume source, in a pod's volume and in a PersistentVolume.

#include <re2/re2.h>

#include <span>

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "apiserver/kinds/volume_specs.h"

namespace berth::apiserver {

using base::Json;

namespace {

constexpr int kDefaultFileMode = 0644;
constexpr int64_t kDefaultTokenSeconds = 3600;

// Checks the path of a file that is written below the volume's folder.
void CheckFilePath(const Checked& path) {
  path.Needed();
  const bool fits = path.RelativePath();
  if (fits && path.text().starts_with("..")) path.Invalid("must not start with '..'");
}

void CheckItems(const Checked& items) {
  for (const Checked& item : items.Items()) {
    item["key"].Needed();
    CheckFilePath(item["path"]);
    item["mode"].FileMode();
  }
}

void CheckHostPath(const Checked& source, SourcePlace) {
  source["path"].NoBacksteps();
  if (source["type"].given()) {
    source["type"].OneOf({"", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
                          "FileOrCreate", "Socket"});
  }
}

void CheckEmptyDir(const Checked& source, SourcePlace) {
  source["sizeLimit"].NonNegativeQuantity();
}

void CheckFiles(const Checked& source, SourcePlace) {
  source["defaultMode"].FileMode();
  CheckItems(source["items"]);
}

// Checks a file of the downward API.
void CheckDownwardFile(const Checked& file) {
  CheckFilePath(file["path"]);
  file["mode"].FileMode();
  const Checked field = file["fieldRef"];
  const Checked resource = file["resourceFieldRef"];
  if (!field.present() && !resource.present()) {
    return file.Required("one of fieldRef and resourceFieldRef is required");
  }
  if (field.present() && resource.present()) {
    file.Invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
  }
  if (field.present()) field["fieldPath"].Needed();
  if (resource.present() && resource["containerName"].Needed()) resource["resource"].Needed();
}

void CheckDownward(const Checked& source, SourcePlace) {
  source["defaultMode"].FileMode();
  for (const Checked& file : source["items"].Items()) CheckDownwardFile(file.Named(source.field()));
}

void CheckProjected(const Checked& projected, SourcePlace) {
  projected["defaultMode"].FileMode();
  std::set<std::string> paths;
  const auto once = [&](const Checked& path) {
    if (path.given() && !paths.insert(path.text()).second) {
      projected.Invalid(path.text(), "conflicting duplicate paths");
    }
  };
  for (const Checked& source : projected["sources"].Items()) {
    size_t kinds = 0;
    for (const std::string_view files : {"secret", "configMap"}) {
      if (!source[files].present()) continue;
      ++kinds;
      source[files]["name"].Needed();
      CheckItems(source[files]["items"]);
      for (const Checked& item : source[files]["items"].Items()) once(item["path"]);
    }
    if (const Checked downward = source["downwardAPI"]; downward.present()) {
      ++kinds;
      for (const Checked& file : downward["items"].Items()) {
        CheckDownwardFile(file.Named(downward.field()));
        once(file["path"]);
      }
    }
    if (const Checked token = source["serviceAccountToken"]; token.present()) {
      ++kinds;
      CheckTokenLifetime(token["expirationSeconds"]);
      CheckFilePath(token["path"]);
    }
    if (kinds > 1) source.Forbidden("may not specify more than 1 volume type per source");
  }
}

void CheckFlex(const Checked& source, SourcePlace) {
  for (const auto& [key, option] : source["options"].Entries()) {
    const std::string owner = "." + api::LowerCase(key.substr(0, key.find('/')));
    if (owner.ends_with(".kubernetes.io") || owner.ends_with(".k8s.io")) {
      option.Invalid(key, "kubernetes.io and k8s.io namespaces are reserved");
    }
  }
}

void CheckCsi(const Checked& source, SourcePlace place) {
  CheckCsiDriverName(source["driver"]);
  if (place == SourcePlace::kPod) {
    if (const Checked secret = source["nodePublishSecretRef"]; secret.present()) {
      if (secret["name"].Needed()) secret["name"].Is(api::CheckDns1123Subdomain);
    }
    return;
  }
  source["volumeHandle"].Needed();
  for (const std::string_view secret : {"controllerPublishSecretRef", "controllerExpandSecretRef",
                                        "nodePublishSecretRef", "nodeExpandSecretRef"}) {
    CheckSecretReference(source[secret]);
  }
}

void CheckEphemeral(const Checked& source, SourcePlace) {
  const Checked claim = source["volumeClaimTemplate"];
  if (!claim.present()) return claim.Required();
  CheckLabels(claim["metadata"]["labels"]);
  CheckAnnotations(claim["metadata"]["annotations"]);
  for (const auto& [key, member] : claim["metadata"].Entries()) {
    const Checked at = claim["metadata"][key];
    if (key != "labels" && key != "annotations" && at.given()) at.Forbidden("cannot be set");
  }
  ValidateClaimSpec(claim["spec"]);
}

void CheckNfs(const Checked& source, SourcePlace) {
  if (source["path"].given() && !source["path"].text().starts_with('/')) {
    source["path"].Invalid("must be an absolute path");
  }
}

void CheckGlusterfs(const Checked& source, SourcePlace place) {
  if (place == SourcePlace::kVolume && source["endpointsNamespace"].present()) {
    source["endpointsNamespace"].Is(api::CheckDns1123Label);
  }
}

void CheckLocal(const Checked& source, SourcePlace) { source["path"].NoBacksteps(); }

// Checks the name of an iSCSI target or initiator. `shown` is the field that errors name.
void CheckIscsiName(const Checked& name, const Checked& shown, std::string_view detail) {
  struct Format {
    std::string_view prefix;
    const char* pattern;
  };
  static constexpr Format kFormats[] = {
      {"iqn", R"(iqn\.\d{4}-\d{2}\.([[:alnum:].-]+)(:[^,;*&$|\s]+)$)"},
      {"eui", R"(^eui.[[:alnum:]]{16}$)"},
      {"naa", R"(^naa.[[:alnum:]]{32}$)"},
  };
  const std::string text = name.text();
  for (const Format& format : kFormats) {
    if (!text.starts_with(format.prefix)) continue;
    if (!RE2::PartialMatch(text, format.pattern)) shown.Invalid(text, "must be valid format");
    return;
  }
  shown.Invalid(text, detail);
}

void CheckIscsi(const Checked& source, SourcePlace place) {
  constexpr std::string_view kFormats = "must be valid format starting with iqn, eui, or naa";
  const bool pod = place == SourcePlace::kPod;
  const std::string_view detail = pod ? kFormats : "must be valid format";
  if (source["iqn"].given()) CheckIscsiName(source["iqn"], source["iqn"], detail);
  source["lun"].Between(0, 255);
  const bool chap = source["chapAuthDiscovery"].flag() || source["chapAuthSession"].flag();
  const Checked secret = source["secretRef"];
  if (chap && !secret.present()) secret.Required();
  if (!pod && secret.present()) secret["name"].Needed();
  // Kubernetes writes this field's name in lower case in its messages.
  const Checked initiator = source["initiatorName"];
  if (initiator.present()) {
    CheckIscsiName(initiator, initiator.Named(source.field() + ".initiatorname"), detail);
  }
}

void CheckFc(const Checked& source, SourcePlace) {
  const Checked names = source["targetWWNs"];
  const bool by_name = names.given(), by_id = source["wwids"].given();
  if (!by_name && !by_id) names.Required("must specify either targetWWNs or wwids, but not both");
  if (by_name && by_id) {
    names.Invalid("targetWWNs and wwids can not be specified simultaneously");
  }
  if (!by_name) return;
  if (source["lun"].present()) {
    source["lun"].Between(0, 255);
  } else {
    source["lun"].Required("lun is required if targetWWNs is specified");
  }
}

struct SourceRule {
  enum Where { kPod, kVolume, kBoth };
  std::string_view name;
  Where where;
  std::vector<std::string_view> needed = {};
  void (*check)(const Checked& source, SourcePlace place) = nullptr;

  bool Serves(SourcePlace place) const {
    return where == kBoth || (where == kPod) == (place == SourcePlace::kPod);
  }
};

std::span<const SourceRule> SourceRules() {
  using enum SourceRule::Where;
  static const std::vector<SourceRule> rules = {
      {"emptyDir", kPod, {}, CheckEmptyDir},
      {"hostPath", kBoth, {"path"}, CheckHostPath},
      {"gitRepo", kPod, {"repository"}},
      {"gcePersistentDisk", kBoth, {"pdName"}},
      {"awsElasticBlockStore", kBoth, {"volumeID"}},
      {"secret", kPod, {"secretName"}, CheckFiles},
      {"nfs", kBoth, {"server", "path"}, CheckNfs},
      {"iscsi", kBoth, {"targetPortal", "iqn"}, CheckIscsi},
      {"glusterfs", kBoth, {"endpoints", "path"}, CheckGlusterfs},
      {"persistentVolumeClaim", kPod, {"claimName"}},
      {"rbd", kBoth, {"monitors", "image"}},
      {"cinder", kBoth, {"volumeID"}},
      {"cephfs", kBoth, {"monitors"}},
      {"flocker", kBoth},
      {"downwardAPI", kPod, {}, CheckDownward},
      {"fc", kBoth, {}, CheckFc},
      {"flexVolume", kBoth, {"driver"}, CheckFlex},
      {"configMap", kPod, {"name"}, CheckFiles},
      {"azureFile", kBoth, {"secretName", "shareName"}},
      {"vsphereVolume", kBoth, {"volumePath"}},
      {"quobyte", kBoth, {"registry", "volume"}},
      {"azureDisk", kBoth, {"diskName", "diskURI"}},
      {"photonPersistentDisk", kBoth, {"pdID"}},
      {"projected", kPod, {}, CheckProjected},
      {"portworxVolume", kBoth, {"volumeID"}},
      {"scaleIO", kBoth, {"gateway", "system", "volumeName"}},
      {"local", kVolume, {"path"}, CheckLocal},
      {"storageos", kBoth, {"volumeName"}},
      {"csi", kBoth, {}, CheckCsi},
      {"ephemeral", kPod, {}, CheckEphemeral},
      {"image", kPod},
  };
  return rules;
}

void DefaultFieldRefs(Json* items) {
  if (items == nullptr || !items->is_array()) return;
  for (Json& item : *items) {
    if (FindMutable(item, {"fieldRef"}) != nullptr)
      SetDefault(item, {"fieldRef", "apiVersion"}, "v1");
  }
}

}  // namespace

bool IsSource(std::string_view member, SourcePlace place) {
  for (const SourceRule& rule : SourceRules()) {
    if (rule.name == member) return rule.Serves(place);
  }
  return false;
}

void DefaultSource(Json& volume) {
  for (const char* source : {"secret", "configMap", "projected", "downwardAPI"}) {
    if (volume.contains(source)) SetDefault(volume, {source, "defaultMode"}, kDefaultFileMode);
  }
  if (volume.contains("hostPath")) SetDefault(volume, {"hostPath", "type"}, "");
  if (volume.contains("iscsi")) SetDefault(volume, {"iscsi", "iscsiInterface"}, "default");
  if (volume.contains("rbd")) {
    SetDefault(volume, {"rbd", "pool"}, "rbd");
    SetDefault(volume, {"rbd", "user"}, "admin");
    SetDefault(volume, {"rbd", "keyring"}, "/etc/ceph/keyring");
  }
  if (Json* spec = FindMutable(volume, {"ephemeral", "volumeClaimTemplate", "spec"})) {
    DefaultClaimSpec(*spec);
  }
  DefaultFieldRefs(FindMutable(volume, {"downwardAPI", "items"}));
  Json* sources = FindMutable(volume, {"projected", "sources"});
  if (sources == nullptr || !sources->is_array()) return;
  for (Json& source : *sources) {
    DefaultFieldRefs(FindMutable(source, {"downwardAPI", "items"}));
    if (FindMutable(source, {"serviceAccountToken"}) != nullptr) {
      SetDefault(source, {"serviceAccountToken", "expirationSeconds"}, kDefaultTokenSeconds);
    }
  }
}

void CheckIscsiLength(const Checked& iscsi, const std::string& volume, const Checked& shown) {
  constexpr size_t kLongest = 64;
  const std::string portal = iscsi["targetPortal"].text();
  if (!iscsi["initiatorName"].present() || volume.size() + 1 + portal.size() <= kLongest) return;
  shown.Invalid(
      "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
      "iscsi.initiatorName is specified.");
}

void ValidateSource(const Checked& volume, SourcePlace place) {
  bool found = false;
  for (const SourceRule& rule : SourceRules()) {
    const Checked source = volume[rule.name];
    if (!rule.Serves(place) || !source.present()) continue;
    if (found) {
      source.Forbidden("may not specify more than 1 volume type");
      continue;
    }
    found = true;
    for (const std::string_view member : rule.needed) source[member].Needed();
    if (rule.check != nullptr) rule.check(source, place);
  }
  if (place == SourcePlace::kPod) {
    CheckIscsiLength(volume["iscsi"], volume["name"].text(), volume["name"]);
  }
  if (!found) volume.Required("must specify a volume type");
}

}  // namespace berth::apiserver
