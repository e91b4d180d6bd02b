#include "node/containers/image_auth.h"

#include "base/base64.h"
#include "base/log.h"

namespace berth::node {

namespace {

namespace json = base::json;
using base::Json;

constexpr char kDockerHub[] = "docker.io";

// The registry of a key of docker's configuration, such as "https://index.docker.io/v1/", "ghcr.io"
// or "registry:5000/path".
std::string RegistryOfKey(std::string_view key) {
  if (const size_t scheme = key.find("://"); scheme != std::string_view::npos) {
    key.remove_prefix(scheme + 3);
  }
  const std::string host(key.substr(0, key.find('/')));
  return host == "index.docker.io" || host == "registry-1.docker.io" ? kDockerHub : host;
}

// Returns the credentials of a registry; nullopt: the entry has none, or they are malformed.
std::optional<rpc::cri::AuthConfig> ReadCredentials(const Json& entry) {
  rpc::cri::AuthConfig out;
  out.set_username(json::String(entry, {"username"}));
  out.set_password(json::String(entry, {"password"}));
  out.set_identity_token(json::String(entry, {"identitytoken"}));
  if (const std::string auth = json::String(entry, {"auth"}); !auth.empty()) {
    const auto plain = base::DecodeBase64(auth);
    const size_t colon = plain.has_value() ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) return std::nullopt;
    out.set_username(plain->substr(0, colon));
    out.set_password(plain->substr(colon + 1));
  }
  if (out.username().empty() && out.identity_token().empty()) return std::nullopt;
  return out;
}

// Returns the entries of a pull secret by registry; none if it is of another type or malformed.
Json ReadEntries(const Json& secret) {
  const std::string type = json::String(secret, {"type"});
  const bool old = type == "kubernetes.io/dockercfg";
  if (!old && type != "kubernetes.io/dockerconfigjson") return Json::object();
  const auto text =
      base::DecodeBase64(json::String(secret, {"data", old ? ".dockercfg" : ".dockerconfigjson"}));
  const auto config = json::Parse(text.value_or(""));
  if (!config.ok()) {
    LOG_WARNING("pull secret {} holds no docker configuration",
                base::Quote(json::String(secret, {"metadata", "name"})));
    return Json::object();
  }
  return old ? *config : json::Map(*config, {"auths"});
}

}  // namespace

std::string ImageRegistry(std::string_view image) {
  const size_t slash = image.find('/');
  if (slash == std::string_view::npos) return kDockerHub;
  const std::string first(image.substr(0, slash));
  // docker's rule: the first part is a registry if it has a dot or a port or is localhost.
  if (first.find_first_of(".:") == std::string::npos && first != "localhost") return kDockerHub;
  return first == "index.docker.io" ? kDockerHub : first;
}

std::optional<rpc::cri::AuthConfig> FindPullCredentials(const api::Pod& pod, std::string_view image,
                                                        const ObjectReader& reader) {
  const std::string registry = ImageRegistry(image);
  for (const Json& reference : json::Array(pod.json(), {"spec", "imagePullSecrets"})) {
    const auto secret = reader(api::kinds::kSecret, pod.ns(), json::String(reference, {"name"}));
    if (!secret.ok()) continue;
    const Json entries = ReadEntries(*secret);
    for (const auto& [key, entry] : entries.items()) {
      if (RegistryOfKey(key) != registry) continue;
      if (auto auth = ReadCredentials(entry); auth.has_value()) return auth;
    }
  }
  return std::nullopt;
}

}  // namespace berth::node
