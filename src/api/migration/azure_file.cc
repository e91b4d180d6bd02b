// Azure File. A handle is "resource group#account#share#volume#namespace of the secret".
#include "api/migration/plugin.h"

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kSecretPrefix = "azure-storage-account-";
constexpr std::string_view kSecretSuffix = "-secret";
constexpr char kShareName[] = "sharename";
constexpr char kResourceGroup[] = "kubernetes.io/azure-file-resource-group";
constexpr char kDefaultNamespace[] = "default";

StatusOr<StorageClass> KeepAzureFileClass(StorageClass storage_class) { return storage_class; }

// The account of the secret "azure-storage-account-ACCOUNT-secret"; of another secret its name.
std::string FindAccount(const std::string& secret) {
  const size_t begin = secret.find(kSecretPrefix);
  const size_t end = secret.rfind(kSecretSuffix);
  if (begin == std::string::npos || end == std::string::npos) return secret;
  const size_t account = begin + kSecretPrefix.size();
  return end > account ? secret.substr(account, end - account) : secret;
}

// Where the share of a source is told to be used from.
struct ShareUse {
  std::string resource_group = {};
  std::string volume;  // of the pod, or the PersistentVolume's name
  std::string secret_namespace;
};

Json MakeAzureFileCsi(const Json& source, const ShareUse& use) {
  const std::string secret = base::json::String(source, {"secretName"});
  const std::string share = base::json::String(source, {"shareName"});
  Json csi = MakeCsiSource(
      {.driver = kAzureFile.driver,
       .handle = fmt::format("{}#{}#{}#{}#{}", use.resource_group, FindAccount(secret), share,
                             use.volume, use.secret_namespace),
       .read_only = base::json::Bool(source, {"readOnly"}),
       .attributes = {{kShareName, share}}});
  csi["nodeStageSecretRef"] = WithoutEmpty({{"name", secret}, {"namespace", use.secret_namespace}});
  return csi;
}

StatusOr<PersistentVolume> TranslateAzureFileInline(const Json& volume, std::string_view ns) {
  Json csi =
      MakeAzureFileCsi(base::json::Map(volume, {kAzureFile.source}),
                       {.volume = base::json::String(volume, {"name"}),
                        .secret_namespace = std::string(ns.empty() ? kDefaultNamespace : ns)});
  const std::string handle = base::json::String(csi, {"volumeHandle"});
  return MakeInlineVolume(handle, std::move(csi), "ReadWriteMany");
}

StatusOr<PersistentVolume> TranslateAzureFileToCsi(PersistentVolume volume) {
  const Json& source = base::json::Map(volume.json(), {"spec", kAzureFile.source});
  const std::string ns =
      base::json::String(source, {"secretNamespace"}, /*fallback=*/volume.claim_namespace());
  if (ns.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find a secret namespace in PersistentVolumeSource or ClaimRef");
  }
  Json csi = MakeAzureFileCsi(source, {.resource_group = volume.annotation(kResourceGroup),
                                       .volume = volume.name(),
                                       .secret_namespace = ns});
  return ReplaceSource(std::move(volume), kAzureFile.source, "csi", std::move(csi));
}

StatusOr<PersistentVolume> TranslateAzureFileToInTree(PersistentVolume volume) {
  const CsiSource csi = volume.csi();
  std::string share;
  std::string secret;
  std::string ns = kDefaultNamespace;
  for (const auto& [key, value] : csi.volume_attributes()) {
    const std::string lower = ToLower(key);
    if (lower == kShareName) share = value;
    if (lower == "secretname") secret = value;
    if (lower == "secretnamespace") ns = value;
  }
  if (const SecretReference stage = csi.secret_ref("nodeStageSecretRef"); !stage.name.empty()) {
    secret = stage.name;
    ns = stage.ns;
  }
  if (share.empty() || secret.empty()) {
    const std::vector<std::string> parts = Split(csi.volume_handle(), "#");
    if (parts.size() < 3) {
      return Error(StatusCode::kInvalidArgument,
                   "error parsing volume id: {:?}, should at least contain two #",
                   csi.volume_handle());
    }
    if (share.empty()) share = parts[2];
    if (secret.empty()) secret = fmt::format("{}{}{}", kSecretPrefix, parts[1], kSecretSuffix);
    if (!parts[0].empty()) volume.set_annotation(kResourceGroup, parts[0]);
  }
  Json source = WithoutEmpty({{"readOnly", csi.read_only()}});
  source["secretName"] = secret;
  source["shareName"] = share;
  source["secretNamespace"] = ns;
  return ReplaceSource(std::move(volume), "csi", kAzureFile.source, std::move(source));
}

}  // namespace

const Plugin kAzureFile = {.name = "kubernetes.io/azure-file",
                           .driver = "file.csi.azure.com",
                           .source = "azureFile",
                           .translate_class = &KeepAzureFileClass,
                           .to_csi = &TranslateAzureFileToCsi,
                           .to_in_tree = &TranslateAzureFileToInTree,
                           .translate_inline = &TranslateAzureFileInline};

}  // namespace berth::api::migration
