#include "volume/local/content_plugin.h"

#include "base/log.h"
#include "platform/walks/ownership.h"
#include "volume/local/atomic_writer.h"
#include "volume/local/payload.h"
#include "volume/local/volume_folder.h"
#include "volume/token_cache.h"

namespace berth::volume {
namespace {

using base::StatusCode;

class ContentPlugin : public LocalPlugin {
 public:
  ContentPlugin(Host& host, std::string_view name, std::string_view source_type, Medium medium)
      : LocalPlugin(host, name, source_type), medium_(medium) {}

  bool RefreshesContent() const override { return true; }

  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels&) override {
    ASSIGN_OR_RETURN(const mode_t mode, ParseMode(Source(spec), "defaultMode", 0644));
    PayloadBuilder files;
    RETURN_IF_ERROR(CollectFiles(pod, Source(spec), mode, files));
    const std::string folder = Folder(pod, spec);
    RETURN_IF_ERROR(PrepareVolumeFolder(host(), folder, medium_, 0));
    const auto set_group = [&]() -> Status {
      const std::optional<int64_t> group = pod.fs_group();
      if (!group) return base::OkStatus();
      return platform::ApplyFsGroup(folder,
                                    {.group = static_cast<gid_t>(*group), .read_only = true});
    };
    RETURN_IF_ERROR(WriteAtomically(folder, files.files(),
                                    {.now = host().clock().Now(), .before_switch = set_group}));
    return Published{.path = folder, .read_only = true};
  }

 protected:
  virtual Status CollectFiles(const api::Pod& pod, const Json& source, mode_t mode,
                              PayloadBuilder& files) = 0;

 private:
  const Medium medium_;
};

class ConfigMapPlugin : public ContentPlugin {
 public:
  explicit ConfigMapPlugin(Host& host)
      : ContentPlugin(host, "kubernetes.io/configmap", "configMap", Medium::kDisk) {}

 protected:
  Status CollectFiles(const api::Pod& pod, const Json& source, mode_t mode,
                      PayloadBuilder& files) override {
    return AddKeys(host(),
                   {.kind = api::kinds::kConfigMap,
                    .ns = pod.ns(),
                    .name = base::json::String(source, {"name"}),
                    .source = source,
                    .default_mode = mode},
                   files);
  }
};

class SecretPlugin : public ContentPlugin {
 public:
  explicit SecretPlugin(Host& host)
      : ContentPlugin(host, "kubernetes.io/secret", "secret", Medium::kMemory) {}

 protected:
  Status CollectFiles(const api::Pod& pod, const Json& source, mode_t mode,
                      PayloadBuilder& files) override {
    return AddKeys(host(),
                   {.kind = api::kinds::kSecret,
                    .ns = pod.ns(),
                    .name = base::json::String(source, {"secretName"}),
                    .source = source,
                    .default_mode = mode},
                   files);
  }
};

class DownwardApiPlugin : public ContentPlugin {
 public:
  explicit DownwardApiPlugin(Host& host)
      : ContentPlugin(host, "kubernetes.io/downward-api", "downwardAPI", Medium::kMemory) {}

 protected:
  Status CollectFiles(const api::Pod& pod, const Json& source, mode_t mode,
                      PayloadBuilder& files) override {
    return AddDownward(host(), pod, source, mode, files);
  }
};

// The user that all containers of the pod run as; nullopt: they differ, or it is not given.
std::optional<uid_t> CommonUser(const api::Pod& pod) {
  const Json* of_pod = base::json::Find(pod.json(), {"spec", "securityContext", "runAsUser"});
  std::optional<int64_t> common;
  for (const auto& list : {pod.init_containers(), pod.containers()}) {
    for (const api::Container& container : list) {
      const Json* user = base::json::Find(container.json(), {"securityContext", "runAsUser"});
      if (user == nullptr) user = of_pod;
      if (user == nullptr || !user->is_number_integer()) return {};
      const auto id = user->get<int64_t>();
      if (id < 0 || id > UINT32_MAX || (common && *common != id)) return {};
      common = id;
    }
  }
  if (!common) return {};
  return static_cast<uid_t>(*common);
}

class ProjectedPlugin : public ContentPlugin {
 public:
  explicit ProjectedPlugin(Host& host)
      : ContentPlugin(host, "kubernetes.io/projected", "projected", Medium::kMemory),
        tokens_(host) {}

  Status TearDown(const PodVolumeRecord& record) override {
    tokens_.ForgetTokens(api::PodUid(record.pod_uid));
    return ContentPlugin::TearDown(record);
  }

 protected:
  Status CollectFiles(const api::Pod& pod, const Json& source, mode_t mode,
                      PayloadBuilder& files) override {
    for (const Json& entry : base::json::Array(source, {"sources"})) {
      RETURN_IF_ERROR(AddSource(pod, entry, mode, files));
    }
    return base::OkStatus();
  }

 private:
  Status AddSource(const api::Pod& pod, const Json& entry, mode_t mode, PayloadBuilder& files) {
    if (const Json* token = base::json::Find(entry, {"serviceAccountToken"})) {
      return AddToken(pod, *token, mode, files);
    }
    if (const Json* downward = base::json::Find(entry, {"downwardAPI"})) {
      return AddDownward(host(), pod, *downward, mode, files);
    }
    const Json* secret = base::json::Find(entry, {"secret"});
    const Json* map = base::json::Find(entry, {"configMap"});
    const Json* keys = secret != nullptr ? secret : map;
    if (keys == nullptr) {
      return base::Error(StatusCode::kInvalidArgument,
                         "projected volume: a source is none of secret, configMap, downwardAPI, "
                         "serviceAccountToken");
    }
    return AddKeys(host(),
                   {.kind = secret != nullptr ? api::kinds::kSecret : api::kinds::kConfigMap,
                    .ns = pod.ns(),
                    .name = base::json::String(*keys, {"name"}),
                    .source = *keys,
                    .default_mode = mode},
                   files);
  }

  Status AddToken(const api::Pod& pod, const Json& source, mode_t mode, PayloadBuilder& files) {
    const std::string path = base::json::String(source, {"path"});
    RETURN_IF_ERROR(CheckPayloadPath(path));  // before the API is asked
    constexpr int64_t kDefaultSeconds = 3600;
    const StatusOr<ServiceToken> token =
        tokens_.GetToken(pod, base::json::String(source, {"audience"}),
                         base::json::Int(source, {"expirationSeconds"}, kDefaultSeconds));
    RETURN_IF_ERROR_WITH(token, "projected volume: token");
    // If the pod names a user or group, only that one may read the file; fsGroup adds r-- for the
    // group.
    const std::optional<uid_t> user = CommonUser(pod);
    if (user || pod.fs_group()) mode = 0600;
    return files.AddFile(path, {.data = token->text, .mode = mode, .owner = user});
  }

  TokenCache tokens_;
};

}  // namespace

std::unique_ptr<VolumePlugin> NewConfigMapPlugin(Host& host) {
  return std::make_unique<ConfigMapPlugin>(host);
}
std::unique_ptr<VolumePlugin> NewSecretPlugin(Host& host) {
  return std::make_unique<SecretPlugin>(host);
}
std::unique_ptr<VolumePlugin> NewDownwardApiPlugin(Host& host) {
  return std::make_unique<DownwardApiPlugin>(host);
}
std::unique_ptr<VolumePlugin> NewProjectedPlugin(Host& host) {
  return std::make_unique<ProjectedPlugin>(host);
}

}  // namespace berth::volume
