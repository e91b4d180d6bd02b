#include "apiserver/requests/resource_request.h"

#include "api/names.h"

namespace berth::apiserver {

using base::Status;

namespace {

base::StatusOr<std::vector<std::string>> SplitSegments(std::string_view path) {
  auto segments = http::SplitPath(path);
  if (!segments) return KubeError(Reason::kBadRequest, "the path has a bad percent escape");
  while (!segments->empty() && segments->back().empty()) segments->pop_back();
  return *std::move(segments);
}

std::string_view VerbFor(const std::string& method, const ResourceRequest& request) {
  const bool collection = request.name.empty();
  if (method == "GET" || method == "HEAD") {
    if (collection) return request.query.Bool("watch") ? "watch" : "list";
    return "get";
  }
  if (method == "POST") return collection || !request.subresource.empty() ? "create" : "";
  if (method == "DELETE") return collection ? "deletecollection" : "delete";
  if (collection) return "";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  return "";
}

}  // namespace

Status UnknownPathError() {
  return KubeError(Reason::kNotFound, "the server could not find the requested resource");
}

Status WrongMethodError() {
  return KubeError(Reason::kMethodNotAllowed,
                   "the server does not allow this method on the requested resource");
}

base::StatusOr<ResourceRequest> RouteRequest(const http::Request& request,
                                             const ServedKinds& kinds) {
  ResourceRequest out;
  auto query = http::Query::Parse(request.raw_query());
  if (!query.ok()) return KubeError(Reason::kBadRequest, base::Message(query.status()));
  out.query = *std::move(query);
  ASSIGN_OR_RETURN(const auto segments, SplitSegments(request.raw_path()));
  // /api/v1/... or /apis/GROUP/VERSION/...
  size_t at = 0;
  std::string group;
  if (!segments.empty() && segments[0] == "api") {
    at = 1;
  } else if (segments.size() > 1 && segments[0] == "apis") {
    group = segments[1];
    at = 2;
  }
  if (at == 0 || segments.size() < at + 2) return UnknownPathError();
  const std::string& version = segments[at++];
  // .../namespaces/NS/PLURAL... is in a namespace; .../namespaces, /namespaces/NS and its status
  // are not.
  const bool scoped = segments[at] == "namespaces" && segments.size() > at + 2 &&
                      kinds.Find(group, version, segments[at + 2]) != nullptr;
  if (scoped) {
    out.ns = segments[at + 1];
    at += 2;
  }
  out.rules = kinds.Find(group, version, segments[at++]);
  if (out.rules == nullptr) return UnknownPathError();
  const api::KindInfo* info = out.rules->info;
  if ((scoped && !info->namespaced) || segments.size() > at + 2) return UnknownPathError();
  if (segments.size() > at) out.name = segments[at++];
  if (segments.size() > at) out.subresource = segments[at];
  if (info->namespaced && !scoped && !out.name.empty()) return UnknownPathError();
  // The store's keys contain the namespace and the name, so a '/' in one would address another
  // object.
  for (const std::string* part : {&out.ns, &out.name}) {
    if (part->empty()) continue;
    if (const Status status = api::CheckPathSegment(*part); !status.ok()) {
      return KubeError(Reason::kBadRequest,
                       fmt::format("invalid name in the URL: {}", base::Message(status)));
    }
  }
  out.verb = VerbFor(request.method, out);
  if (out.verb.empty() || (info->read_only && request.method != "GET")) return WrongMethodError();
  if (out.verb == "create" && info->namespaced && out.ns.empty()) return WrongMethodError();
  return out;
}

}  // namespace berth::apiserver
