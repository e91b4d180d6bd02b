#include "volume/flex/driver_options.h"

#include "api/kind_info.h"
#include "base/base64.h"
#include "base/json.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::StatusCode;
using base::json::String;

const Json& SourceOf(const VolumeSpec& spec) {
  if (spec.pv != nullptr) return base::json::Map(spec.pv->json(), {"spec", "flexVolume"});
  return base::json::Map(spec.pod_volume.json(), {"flexVolume"});
}

void AddVolume(const VolumeSpec& spec, const FlexSource& source, DriverOptions& options) {
  options.values["kubernetes.io/fsType"] = source.fs_type;
  options.values["kubernetes.io/readwrite"] = source.read_only ? "ro" : "rw";
  options.values["kubernetes.io/pvOrVolumeName"] = spec.folder_name();
}

void AddPod(const api::Pod& pod, DriverOptions& options) {
  options.values["kubernetes.io/pod.name"] = pod.name();
  options.values["kubernetes.io/pod.namespace"] = pod.ns();
  options.values["kubernetes.io/pod.uid"] = pod.uid();
  options.values["kubernetes.io/serviceAccount.name"] = pod.String({"spec", "serviceAccountName"});
  if (!pod.fs_group().has_value()) return;
  const std::string group = std::to_string(*pod.fs_group());
  options.values["kubernetes.io/mounterArgs.FsGroup"] = group;
  // The key before Kubernetes 1.15, which its documents still name.
  options.values["kubernetes.io/fsGroup"] = group;
}

Status AddSecret(Host& host, const api::Pod& pod, const FlexSource& source,
                 DriverOptions& options) {
  if (source.secret.empty()) return OkStatus();
  const std::string ns = source.secret.ns.empty() ? pod.ns() : source.secret.ns;
  const std::string what = fmt::format("secret '{}/{}'", ns, source.secret.name);
  const auto secret = host.GetObject(api::kinds::kSecret, ns, source.secret.name);
  RETURN_IF_ERROR_WITH(secret, fmt::format("read {}", what));
  if (const std::string type = String(*secret, {"type"}); type != source.driver) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is of type '{}': one for this driver has its name as type, '{}'", what, type,
                 source.driver);
  }
  for (const auto& [key, encoded] : base::json::Map(*secret, {"data"}).items()) {
    const auto value = encoded.is_string() ? base::DecodeBase64(encoded.get<std::string>())
                                           : std::optional<std::string>();
    if (!value.has_value()) {
      return Error(StatusCode::kFailedPrecondition, "entry '{}' of {} is no base64", key, what);
    }
    options.values["kubernetes.io/secret/" + key] = base::EncodeBase64(*value);
    options.secrets.Add(*value);
  }
  return OkStatus();
}

void AddOfUser(const FlexSource& source, DriverOptions& options) {
  for (const auto& [key, value] : source.options) options.values[key] = value;
}

}  // namespace

bool IsFlexVolume(const VolumeSpec& spec) {
  if (spec.pv == nullptr) return spec.pod_volume.source_type() == "flexVolume";
  return base::json::Find(spec.pv->json(), {"spec", "flexVolume"}) != nullptr;
}

std::string FlexDriverOf(const VolumeSpec& spec) { return String(SourceOf(spec), {"driver"}); }

StatusOr<FlexSource> ReadFlexSource(const VolumeSpec& spec) {
  const Json& json = SourceOf(spec);
  FlexSource source{.driver = String(json, {"driver"}),
                    .fs_type = String(json, {"fsType"}),
                    .read_only = spec.read_only || base::json::Bool(json, {"readOnly"}),
                    .secret = {.name = String(json, {"secretRef", "name"}), .ns = ""},
                    .options = {}};
  if (source.driver.empty()) {
    return Error(StatusCode::kInvalidArgument, "volume '{}' names no Flexvolume driver",
                 spec.folder_name());
  }
  // A pod may read only Secrets of its own namespace.
  if (spec.pv != nullptr) source.secret.ns = String(json, {"secretRef", "namespace"});
  for (const auto& [key, value] : base::json::Map(json, {"options"}).items()) {
    if (value.is_string()) source.options[key] = value.get<std::string>();
  }
  return source;
}

std::string DriverOptions::RenderJson() const {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return base::json::Dump(json);
}

StatusOr<DriverOptions> OptionsOf(const VolumeSpec& spec) {
  ASSIGN_OR_RETURN(const FlexSource source, ReadFlexSource(spec));
  DriverOptions options;
  AddVolume(spec, source, options);
  AddOfUser(source, options);
  return options;
}

StatusOr<DriverOptions> MountOptionsOf(Host& host, const api::Pod& pod, const VolumeSpec& spec) {
  ASSIGN_OR_RETURN(const FlexSource source, ReadFlexSource(spec));
  DriverOptions options;
  AddVolume(spec, source, options);
  AddPod(pod, options);
  RETURN_IF_ERROR(AddSecret(host, pod, source, options));
  AddOfUser(source, options);
  return options;
}

}  // namespace berth::volume
