#include "node/containers/container_env.h"

#include <algorithm>
#include <optional>

#include "base/base64.h"
#include "node/containers/container_resources.h"

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
namespace json = base::json;

// Whether a process can find the name in its environment. The kubelet too skips other names of
// envFrom.
bool IsEnvName(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// The key in a path such as metadata.labels['x'] ("x"); nullopt: `path` is no subscript of `of`.
std::optional<std::string> Subscript(std::string_view path, std::string_view of) {
  if (!path.starts_with(of)) return std::nullopt;
  path.remove_prefix(of.size());
  if (path.size() < 4 || !path.starts_with("['") || !path.ends_with("']")) return std::nullopt;
  return std::string(path.substr(2, path.size() - 4));
}

StatusOr<std::string> ReadField(const api::Pod& pod, const PodFacts& facts,
                                const std::string& path) {
  if (path == "metadata.name") return pod.name();
  if (path == "metadata.namespace") return pod.ns();
  if (path == "metadata.uid") return pod.uid();
  if (path == "spec.nodeName") return facts.node_name;
  if (path == "spec.serviceAccountName") return pod.service_account_name();
  if (path == "status.hostIP" || path == "status.hostIPs") return facts.host_ip;
  if (path == "status.podIP") return facts.pod_ips.empty() ? std::string() : facts.pod_ips[0];
  if (path == "status.podIPs") return fmt::format("{}", fmt::join(facts.pod_ips, ","));
  if (const auto key = Subscript(path, "metadata.labels")) return pod.label(*key);
  if (const auto key = Subscript(path, "metadata.annotations")) return pod.annotation(*key);
  return base::Error(StatusCode::kInvalidArgument, "unsupported fieldPath: {}", path);
}

// Builds the environment of one container, and reads each object once.
class EnvironmentBuilder {
 public:
  EnvironmentBuilder(const api::Pod& pod, const api::Container& container, const PodFacts& facts,
                     const ObjectReader& reader)
      : pod_(pod), container_(container), facts_(facts), reader_(reader) {}

  StatusOr<Environment> Build() {
    for (const Json& source : json::Array(container_.json(), {"envFrom"})) {
      RETURN_IF_ERROR(AddFrom(source));
    }
    for (const Json& variable : json::Array(container_.json(), {"env"})) {
      RETURN_IF_ERROR(AddVariable(variable));
    }
    return std::move(out_);
  }

 private:
  Status Add(const std::string& name, std::string value) {
    const auto [it, added] = index_.emplace(name, out_.size());
    if (added) out_.emplace_back(name, std::string());
    std::string& present = out_[it->second].second;
    size_ += value.size() - present.size() + (added ? name.size() : 0);
    if (size_ > kMaxExecBytes) return ExecTooLong();
    values_[name] = value;
    present = std::move(value);
    return base::OkStatus();
  }

  // Reads the object, or takes it from the objects that were read. nullptr: it is missing, and that
  // is allowed (`optional`).
  StatusOr<const Json*> FindObject(const api::KindInfo& kind, const std::string& name,
                                   bool optional) {
    const std::string key = fmt::format("{}/{}", kind.singular, name);
    auto it = objects_.find(key);
    if (it == objects_.end()) {
      auto object = reader_(kind, pod_.ns(), name);
      if (!object.ok() && object.status().code() != StatusCode::kNotFound) {
        return base::Annotate(object.status(), fmt::format("read {} \"{}\"", kind.singular, name));
      }
      it = objects_
               .emplace(key, object.ok() ? std::optional<Json>(*std::move(object))
                                         : std::optional<Json>())
               .first;
    }
    if (it->second.has_value()) return &*it->second;
    if (optional) return nullptr;
    return base::Error(StatusCode::kNotFound, "{} \"{}\" not found", kind.singular, name);
  }

  static StatusOr<std::string> SecretValue(const std::string& name, const std::string& key,
                                           const std::string& encoded) {
    auto value = base::DecodeBase64(encoded);
    if (value.has_value()) return *std::move(value);
    return base::Error(StatusCode::kDataLoss, "key {} of secret \"{}\": it is not base64", key,
                       name);
  }

  Status AddFrom(const Json& source) {
    const std::string prefix = json::String(source, {"prefix"});
    for (const bool secret : {false, true}) {
      const Json* reference = json::Find(source, {secret ? "secretRef" : "configMapRef"});
      if (reference == nullptr) continue;
      const std::string name = json::String(*reference, {"name"});
      ASSIGN_OR_RETURN(const Json* object,
                       FindObject(secret ? api::kinds::kSecret : api::kinds::kConfigMap, name,
                                  json::Bool(*reference, {"optional"})));
      if (object == nullptr) continue;
      for (const auto& [key, value] : json::Map(*object, {"data"}).items()) {
        if (!value.is_string() || !IsEnvName(prefix + key)) continue;
        std::string text = value.get<std::string>();
        if (secret) {
          ASSIGN_OR_RETURN(text, SecretValue(name, key, text));
        }
        RETURN_IF_ERROR(Add(prefix + key, std::move(text)));
      }
    }
    return base::OkStatus();
  }

  Status AddVariable(const Json& variable) {
    const std::string name = json::String(variable, {"name"});
    const Json* from = json::Find(variable, {"valueFrom"});
    if (from == nullptr || !from->is_object()) {
      const auto value =
          ExpandReferences(json::String(variable, {"value"}), values_, kMaxExecBytes);
      return value.ok() ? Add(name, *value) : ExecTooLong();
    }
    if (const Json* field = json::Find(*from, {"fieldRef"}); field != nullptr) {
      ASSIGN_OR_RETURN(std::string value,
                       ReadField(pod_, facts_, json::String(*field, {"fieldPath"})));
      return Add(name, std::move(value));
    }
    if (const Json* resource = json::Find(*from, {"resourceFieldRef"}); resource != nullptr) {
      ASSIGN_OR_RETURN(std::string value, ReadResource(*resource));
      return Add(name, std::move(value));
    }
    if (const Json* key = json::Find(*from, {"configMapKeyRef"}); key != nullptr) {
      return AddKey(name, *key, api::kinds::kConfigMap);
    }
    if (const Json* secret = json::Find(*from, {"secretKeyRef"}); secret != nullptr) {
      return AddKey(name, *secret, api::kinds::kSecret);
    }
    return base::OkStatus();
  }

  StatusOr<std::string> ReadResource(const Json& reference) {
    const std::string of = json::String(reference, {"containerName"}, container_.name());
    auto containers = pod_.containers();
    for (api::Container& init : pod_.init_containers()) containers.push_back(std::move(init));
    for (const api::Container& candidate : containers) {
      if (candidate.name() != of) continue;
      const Json* divisor = json::Find(reference, {"divisor"});
      const std::string text = divisor == nullptr     ? ""
                               : divisor->is_string() ? divisor->get<std::string>()
                                                      : divisor->dump();
      return ComputeResourceField(candidate, json::String(reference, {"resource"}), text,
                                  facts_.cpu_capacity_milli, facts_.memory_capacity);
    }
    return base::Error(StatusCode::kInvalidArgument, "container {} not found", of);
  }

  Status AddKey(const std::string& variable, const Json& reference, const api::KindInfo& kind) {
    const bool optional = json::Bool(reference, {"optional"});
    const std::string name = json::String(reference, {"name"});
    const std::string key = json::String(reference, {"key"});
    ASSIGN_OR_RETURN(const Json* object, FindObject(kind, name, optional));
    if (object == nullptr) return base::OkStatus();
    const Json* value = json::Find(*object, {"data", key});
    if (value == nullptr || !value->is_string()) {
      if (optional) return base::OkStatus();
      return base::Error(StatusCode::kNotFound, "couldn't find key {} in {} {}/{}", key, kind.kind,
                         pod_.ns(), name);
    }
    std::string text = value->get<std::string>();
    if (&kind == &api::kinds::kSecret) {
      ASSIGN_OR_RETURN(text, SecretValue(name, key, text));
    }
    return Add(variable, std::move(text));
  }

  const api::Pod& pod_;
  const api::Container& container_;
  const PodFacts& facts_;
  const ObjectReader& reader_;
  Environment out_;
  size_t size_ = 0;  // bytes in out_
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::optional<Json>> objects_;
};

}  // namespace

StatusOr<Environment> MakeEnvironment(const api::Pod& pod, const api::Container& container,
                                      const PodFacts& facts, const ObjectReader& reader) {
  return EnvironmentBuilder(pod, container, facts, reader).Build();
}

StatusOr<std::string> ExpandReferences(std::string_view text,
                                       const std::map<std::string, std::string>& values,
                                       size_t max_bytes) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    if (out.size() > max_bytes) break;
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      i += 2;
      continue;
    }
    const size_t end = text[i + 1] == '(' ? text.find(')', i + 2) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text[i++];
      continue;
    }
    const std::string name(text.substr(i + 2, end - i - 2));
    const auto value = values.find(name);
    out += value != values.end() ? value->second : std::string(text.substr(i, end + 1 - i));
    i = end + 1;
  }
  if (out.size() <= max_bytes) return out;
  return base::Error(StatusCode::kInvalidArgument,
                     "with its references expanded it is longer than {} bytes", max_bytes);
}

Status ExecTooLong() {
  return base::Error(StatusCode::kInvalidArgument,
                     "the environment, the command and the arguments have more than {} bytes "
                     "together, and execve takes no more",
                     kMaxExecBytes);
}

std::map<std::string, std::string> ToMap(const Environment& environment) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : environment) out[name] = value;
  return out;
}

}  // namespace berth::node
