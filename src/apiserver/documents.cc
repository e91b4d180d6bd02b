#include "apiserver/documents.h"

#include <algorithm>

#include "apiserver/discovery.h"
#include "apiserver/health.h"
#include "apiserver/kube_status.h"

namespace berth::apiserver {
namespace {

// The release of Kubernetes whose API the kinds follow; clients read features from it.
constexpr std::string_view kMajor = "1";
constexpr std::string_view kMinor = "32";

#if defined(__x86_64__)
constexpr std::string_view kPlatform = "linux/amd64";
#elif defined(__aarch64__)
constexpr std::string_view kPlatform = "linux/arm64";
#else
constexpr std::string_view kPlatform = "linux";
#endif

Response Version() {
  return {.body = base::json::Dump({{"major", std::string(kMajor)},
                                    {"minor", std::string(kMinor)},
                                    {"gitVersion", fmt::format("v{}.{}.0+berth", kMajor, kMinor)},
                                    {"gitCommit", ""},
                                    {"gitTreeState", "clean"},
                                    {"buildDate", "1970-01-01T00:00:00Z"},
                                    {"goVersion", ""},
                                    {"compiler", "clang"},
                                    {"platform", std::string(kPlatform)}})};
}

std::vector<HealthCheck> ChecksOf(store::Store& store) {
  return {{"ping", [] { return base::OkStatus(); }},
          {"store", [&store] {
             // A read of what need not exist shows that the database answers.
             const auto record = store.Get("/namespaces/default");
             return record.status().code() == base::StatusCode::kNotFound ? base::OkStatus()
                                                                          : record.status();
           }}};
}

}  // namespace

void Documents::UseAddress(std::string address) {
  base::MutexLock lock(mutex_);
  address_ = std::move(address);
}

std::string Documents::address() {
  base::MutexLock lock(mutex_);
  return address_;
}

bool Documents::MayServe(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with("/api/") || path.starts_with("/apis/")) {
    // A resource's path is longer: /api/v1/pods, /apis/GROUP/VERSION/pods.
    const auto slashes = std::count(path.begin(), path.end(), '/');
    return slashes <= (path.starts_with("/api/") ? 2 : 3);
  }
  return true;
}

std::optional<Response> Documents::Find(std::string_view path, const Request& request) {
  if (path == "/") return Index();
  if (path == "/version") return Version();
  const auto query = Query::Parse(request.raw_query());
  if (!query.ok()) {
    return ToResponse(KubeError(Reason::kBadRequest, base::Message(query.status())));
  }
  if (auto health = HealthDocument(ChecksOf(context_.store), path, *query)) return health;
  // An empty document in protobuf: kubectl then knows of no schema and leaves validation to the
  // server.
  if (path == "/openapi/v2") {
    return Response{.content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"};
  }
  return DiscoveryDocument(context_.kinds.Current()->infos(), path, request, address());
}

Response Documents::Index() {
  std::vector<std::string> paths = DiscoveryPaths(context_.kinds.Current()->infos());
  for (std::string& path : HealthPaths(ChecksOf(context_.store))) paths.push_back(std::move(path));
  paths.insert(paths.end(), {"/version"});
  std::sort(paths.begin(), paths.end());
  return {.body = base::json::Dump({{"paths", paths}})};
}

void Documents::Answer(Exchange& exchange) {
  const Request& request = exchange.request();
  std::string_view path = request.raw_path();
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  auto document = Find(path, request);
  if (!document) {
    return ReplyError(
        exchange, KubeError(Reason::kNotFound, "the server could not find the requested resource"));
  }
  if (request.method != "GET" && !request.is_head()) {
    return ReplyError(exchange,
                      KubeError(Reason::kMethodNotAllowed,
                                "the server does not allow this method on the requested resource"));
  }
  Reply(exchange, *std::move(document));
}

}  // namespace berth::apiserver
