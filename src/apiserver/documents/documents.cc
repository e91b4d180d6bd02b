#include "apiserver/documents/documents.h"

#include <algorithm>

#include "apiserver/documents/discovery.h"
#include "apiserver/documents/server_version.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/health.h"
#include "base/text.h"

namespace berth::apiserver {
namespace {

std::vector<HealthCheck> ChecksOf(store::Store& store) {
  return {{"ping", [] { return base::OkStatus(); }},
          {"store", [&store] {
             // The read shows that the database answers. The object does not have to exist.
             const auto record = store.Get("/namespaces/default");
             return record.status().code() == base::StatusCode::kNotFound ? base::OkStatus()
                                                                          : record.status();
           }}};
}

}  // namespace

void Documents::SetAddress(std::string address) {
  base::MutexLock lock(mutex_);
  address_ = std::move(address);
}

std::string Documents::address() {
  base::MutexLock lock(mutex_);
  return address_;
}

bool Documents::MayServe(std::string_view path) {
  path = base::TrimSlashes(path);
  if (path.starts_with("/api/") || path.starts_with("/apis/")) {
    // A resource's path is longer: /api/v1/pods, /apis/GROUP/VERSION/pods.
    const auto slashes = std::count(path.begin(), path.end(), '/');
    return slashes <= (path.starts_with("/api/") ? 2 : 3);
  }
  return true;
}

std::optional<http::Response> Documents::FindDocument(std::string_view path,
                                                      const http::Request& request) {
  if (path == "/") return MakeIndex();
  if (path == "/version") return http::Response{.body = base::json::Dump(VersionDocument())};
  const auto query = http::Query::Parse(request.raw_query());
  if (!query.ok()) {
    return ToResponse(KubeError(Reason::kBadRequest, base::Message(query.status())));
  }
  if (auto health = AnswerHealthPath(ChecksOf(context_.store), path, *query)) return health;
  const auto kinds = context_.kinds.Current();
  if (auto document = open_api_.AnswerPath(*kinds, path, request)) return document;
  return MakeDiscoveryDocument(kinds->infos(), path, request, address());
}

http::Response Documents::MakeIndex() {
  const auto kinds = context_.kinds.Current();
  std::vector<std::string> paths = {"/version"};
  for (auto&& more : {ListDiscoveryPaths(kinds->infos()), ListHealthPaths(ChecksOf(context_.store)),
                      OpenApiDocuments::ListPaths(*kinds)}) {
    paths.insert(paths.end(), more.begin(), more.end());
  }
  std::sort(paths.begin(), paths.end());
  return {.body = base::json::Dump({{"paths", paths}})};
}

void Documents::AnswerRequest(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  std::string_view path = request.raw_path();
  path = base::TrimSlashes(path);
  auto document = FindDocument(path, request);
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
