#include "kube/config.h"

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "api/codecs/yaml.h"
#include "base/base64.h"
#include "base/files/whole_file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace berth::kube {
namespace {

using base::Annotate;
using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::json::String;

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 3 * 1024 * 1024;

// Reads a file. It follows symlinks, because the kubelet replaces a pod's files by changing a
// symlink.
StatusOr<std::string> ReadFile(const std::string& path) {
  std::string content;
  const int error = base::ReadWholeFile(path, kMaxFileBytes, content);
  if (error == 0) return content;
  if (error == EFBIG) {
    return Error(StatusCode::kInvalidArgument, "read {}: larger than {} bytes", Quote(path),
                 kMaxFileBytes);
  }
  return Error(error == ENOENT   ? StatusCode::kNotFound
               : error == EACCES ? StatusCode::kPermissionDenied
                                 : StatusCode::kUnavailable,
               "read {}: {}", Quote(path), std::generic_category().message(error));
}

// Returns the member `member` of the entry of `list` with this name: {name: ..., <member>: {...}}.
StatusOr<Json> FindNamed(const Json& config, std::string_view list, std::string_view member,
                         std::string_view name) {
  for (const Json& entry : base::json::Array(config, {list})) {
    if (String(entry, {"name"}) == name) return base::json::Map(entry, {member});
  }
  return Error(StatusCode::kNotFound, "there is no {} named {}", member, Quote(name));
}

// Checks a value that is sent in an HTTP header. A control character could end the header.
Status CheckHeader(std::string_view field, std::string_view value) {
  const bool clean = std::none_of(value.begin(), value.end(),
                                  [](unsigned char c) { return c < ' ' || c == 0x7f; });
  return clean ? base::OkStatus()
               : Error(StatusCode::kInvalidArgument, "\"{}\" has a control character", field);
}

class Loader {
 public:
  explicit Loader(const std::string& path) : folder_(fs::path(path).parent_path()) {}

  StatusOr<Config> LoadConfig(const Json& file, std::string_view context_name) {
    const std::string wanted =
        context_name.empty() ? String(file, {"current-context"}) : std::string(context_name);
    if (wanted.empty()) return Error(StatusCode::kNotFound, "it has no current-context");
    ASSIGN_OR_RETURN(const Json context, FindNamed(file, "contexts", "context", wanted));
    ASSIGN_OR_RETURN(const Json cluster,
                     FindNamed(file, "clusters", "cluster", String(context, {"cluster"})));
    config_.ns = String(context, {"namespace"}, "default");
    RETURN_IF_ERROR(LoadCluster(cluster));
    if (const std::string user_name = String(context, {"user"}); !user_name.empty()) {
      ASSIGN_OR_RETURN(const Json user, FindNamed(file, "users", "user", user_name));
      RETURN_IF_ERROR_WITH(LoadUser(user), fmt::format("user {}", Quote(user_name)));
    }
    return std::move(config_);
  }

 private:
  Status LoadCluster(const Json& cluster) {
    constexpr std::string_view kUnix = "unix://";
    const std::string server = String(cluster, {"server"});
    if (server.starts_with(kUnix)) {
      config_.socket = server.substr(kUnix.size());
      if (!config_.socket.starts_with('/')) {
        return Error(StatusCode::kInvalidArgument, "server {}: the socket's path is not absolute",
                     Quote(server));
      }
    } else if (server.starts_with("https://") || server.starts_with("http://")) {
      config_.server = server;
    } else {
      return Error(StatusCode::kInvalidArgument,
                   "server {} is not an https://, http:// or unix:// address", Quote(server));
    }
    if (base::json::Find(cluster, {"tls-server-name"}) != nullptr) {
      return Error(StatusCode::kUnimplemented, "tls-server-name is not supported");
    }
    config_.proxy_url = String(cluster, {"proxy-url"});
    config_.insecure_skip_tls_verify = base::json::Bool(cluster, {"insecure-skip-tls-verify"});
    ASSIGN_OR_RETURN(config_.certificate_authority, ReadPem(cluster, "certificate-authority"));
    return base::OkStatus();
  }

  Status LoadUser(const Json& user) {
    for (const std::string_view field :
         {"exec", "auth-provider", "username", "password", "as-uid", "as-user-extra"}) {
      if (base::json::Find(user, {field}) != nullptr) {
        return Error(StatusCode::kUnimplemented,
                     "\"{}\" is not supported: use a client certificate, token or tokenFile",
                     field);
      }
    }
    ASSIGN_OR_RETURN(config_.client_certificate, ReadPem(user, "client-certificate"));
    ASSIGN_OR_RETURN(config_.client_key, ReadPem(user, "client-key"));
    config_.token = String(user, {"token"});
    config_.impersonate_user = String(user, {"as"});
    for (const Json& group : base::json::Array(user, {"as-groups"})) {
      if (group.is_string()) config_.impersonate_groups.push_back(group.get<std::string>());
    }
    RETURN_IF_ERROR(CheckHeader("as", config_.impersonate_user));
    for (const std::string& group : config_.impersonate_groups) {
      RETURN_IF_ERROR(CheckHeader("as-groups", group));
    }
    if (const std::string file = String(user, {"tokenFile"}); !file.empty())
      config_.token_file = ResolvePath(file);
    return base::OkStatus();
  }

  // Reads "<field>-data", which is base64, or the file that "<field>" names.
  StatusOr<std::string> ReadPem(const Json& from, const std::string& field) {
    if (const std::string data = String(from, {field + "-data"}); !data.empty()) {
      auto decoded = base::DecodeBase64(data);
      if (!decoded) return Error(StatusCode::kInvalidArgument, "{}-data is not base64", field);
      return *std::move(decoded);
    }
    const std::string file = String(from, {field});
    if (file.empty()) return std::string();
    auto content = ReadFile(ResolvePath(file));
    if (!content.ok()) return Annotate(content.status(), field);
    return content;
  }

  std::string ResolvePath(const std::string& file) const { return (folder_ / file).string(); }

  const fs::path folder_;
  Config config_;
};

}  // namespace

StatusOr<Config> LoadKubeconfig(const std::string& path, std::string_view context) {
  const std::string what = fmt::format("kubeconfig {}", Quote(path));
  auto text = ReadFile(path);
  if (!text.ok()) return Annotate(text.status(), "kubeconfig");
  auto documents = api::ParseYaml(*text);
  if (!documents.ok()) return Annotate(documents.status(), what);
  if (documents->size() != 1 || !documents->front().is_object()) {
    return Error(StatusCode::kInvalidArgument, "{}: the file must be a single YAML mapping", what);
  }
  auto config = Loader(path).LoadConfig(documents->front(), context);
  if (!config.ok()) return Annotate(config.status(), what);
  return config;
}

std::string FindKubeconfigPath(std::string_view explicit_path) {
  if (!explicit_path.empty()) return std::string(explicit_path);
  if (const char* list = std::getenv("KUBECONFIG"); list != nullptr && *list != '\0') {
    const std::string_view paths(list);
    return std::string(paths.substr(0, paths.find(':')));
  }
  const char* home = std::getenv("HOME");
  return fmt::format("{}/.kube/config", home == nullptr ? "" : home);
}

std::string ReadTokenFile(const std::string& path) {
  std::string content;
  if (base::ReadWholeFile(path, kMaxFileBytes, content) != 0) return "";
  return std::string(base::Trim(content));
}

StatusOr<Config> LoadInClusterConfig(const std::string& folder) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr || *host == '\0' || *port == '\0') {
    return Error(
        StatusCode::kFailedPrecondition,
        "no service account: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so "
        "this is not a pod; give a kubeconfig");
  }
  Config config;
  const bool ipv6 = std::string_view(host).find(':') != std::string_view::npos;
  config.server =
      ipv6 ? fmt::format("https://[{}]:{}", host, port) : fmt::format("https://{}:{}", host, port);
  config.token_file = folder + "/token";
  ASSIGN_OR_RETURN(config.token, ReadFile(config.token_file));
  ASSIGN_OR_RETURN(config.certificate_authority, ReadFile(folder + "/ca.crt"));
  auto ns = ReadFile(folder + "/namespace");
  config.ns = ns.ok() && !ns->empty() ? *ns : "default";
  return config;
}

StatusOr<Config> LoadConfig(const std::string& path) {
  if (!path.empty()) return LoadKubeconfig(path);
  auto in_pod = LoadInClusterConfig();
  if (in_pod.ok()) return in_pod;
  return LoadKubeconfig(FindKubeconfigPath());
}

}  // namespace berth::kube
