#include "apiserver/documents/openapi.h"

#include <malloc.h>

#include "apiserver/documents/openapi_document.h"
#include "apiserver/formats/entity_tag.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/formats/media_range.h"
#include "http/gzip.h"

namespace berth::apiserver {

using base::Json;

namespace {

constexpr std::string_view kV2 = "/openapi/v2";
constexpr std::string_view kV3 = "/openapi/v3";
constexpr std::string_view kJsonDocument = "application/json";
// Clients also ask for the protobuf form with a name that is no valid media type.
constexpr std::string_view kV2Protobuf =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
constexpr std::string_view kV2ProtobufAsked =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

// "api/v1" or "apis/apps/v1": how a group's version is named in the index.
std::string NameOf(const api::KindInfo& info) { return info.url_prefix().substr(1); }

std::map<std::string, std::vector<KindPtr>> GroupByVersion(const ServedKinds& kinds) {
  std::map<std::string, std::vector<KindPtr>> out;
  for (const KindPtr& kind : kinds.all()) out[NameOf(*kind->info)].push_back(kind);
  return out;
}

std::string UrlOf(std::string_view name, std::string_view tag) {
  return fmt::format("{}/{}?hash={}", kV3, name, tag);
}

http::Response NotAcceptableResponse(std::string_view types) {
  return ToResponse(
      KubeError(Reason::kNotAcceptable,
                fmt::format("only the following media types are accepted: {}", types)));
}

}  // namespace

OpenApiDocuments::DocumentPtr OpenApiDocuments::FindOrMake(const std::string& key,
                                                           const std::vector<KindPtr>& kinds,
                                                           Make make) {
  // The lock is held while the document is made, so that other requests wait for the document and
  // do not make it again.
  base::MutexLock lock(mutex_);
  DocumentPtr& slot = documents_[key];
  if (slot == nullptr || slot->kinds != kinds) {
    const std::string text = make(kinds);
    slot = std::make_shared<const Document>(Document{.kinds = kinds,
                                                     .tag = EntityTag(text),
                                                     .compressed = http::Gzip(text),
                                                     .text_bytes = text.size()});
    // Returns the memory to the system, because a document is rarely made again.
    malloc_trim(0);
  }
  return slot;
}

void OpenApiDocuments::RemoveOthers(const std::map<std::string, std::vector<KindPtr>>& served) {
  base::MutexLock lock(mutex_);
  std::erase_if(documents_, [&](const auto& entry) {
    return !served.contains(entry.first) && !entry.first.starts_with('/');
  });
}

http::Response OpenApiDocuments::MakeResponse(const Document& document,
                                              const http::Request& request,
                                              std::string_view content_type) {
  http::Response response{.content_type = std::string(content_type),
                          .headers = {{"Vary", "Accept"}}};
  TagEntity(request, document.tag, response);
  if (response.code == 304) return response;
  if (AcceptsGzip(request)) {
    response.body = document.compressed;
    response.headers.emplace_back("Content-Encoding", "gzip");
  } else {
    response.body = http::Gunzip(document.compressed, document.text_bytes).value_or("");
  }
  return response;
}

http::Response OpenApiDocuments::AnswerIndex(const ServedKinds& kinds,
                                             const http::Request& request) {
  const auto served = GroupByVersion(kinds);
  Json paths = Json::object();
  for (const auto& [name, of_version] : served) {
    paths[name] = {{"serverRelativeURL",
                    UrlOf(name, FindOrMake(name, of_version, MakeOpenApiV3Document)->tag)}};
  }
  RemoveOthers(served);
  http::Response response{.body = base::json::Dump({{"paths", std::move(paths)}})};
  TagEntity(request, EntityTag(response.body), response);
  return response;
}

std::optional<http::Response> OpenApiDocuments::AnswerGroupVersion(const ServedKinds& kinds,
                                                                   const std::string& name,
                                                                   const http::Request& request) {
  const auto served = GroupByVersion(kinds);
  const auto of_version = served.find(name);
  if (of_version == served.end()) return std::nullopt;
  bool acceptable = false;
  for (const MediaRange& range : ParseAccept(request.Header("Accept"))) {
    acceptable |= range.Includes(kJsonDocument);
  }
  if (!acceptable) return NotAcceptableResponse(kJsonDocument);
  const DocumentPtr document = FindOrMake(name, of_version->second, MakeOpenApiV3Document);
  const auto query = http::Query::Parse(request.raw_query());
  const std::string asked = query.ok() ? query->Get("hash") : "";
  if (!asked.empty() && asked != document->tag) {
    return http::Response{.code = 301, .headers = {{"Location", UrlOf(name, document->tag)}}};
  }
  http::Response response = MakeResponse(*document, request, kJsonDocument);
  if (!asked.empty()) response.cache_control = "public, immutable";
  return response;
}

http::Response OpenApiDocuments::AnswerVersion2(const ServedKinds& kinds,
                                                const http::Request& request) {
  for (const MediaRange& range : ParseAccept(request.Header("Accept"))) {
    if (range.Includes(kJsonDocument)) {
      return MakeResponse(*FindOrMake(std::string(kV2), kinds.all(), MakeOpenApiV2Document),
                          request, kJsonDocument);
    }
    if (range.Includes(kV2Protobuf) || range.Includes(kV2ProtobufAsked)) {
      return MakeResponse(*FindOrMake(std::string(kV2Protobuf), kinds.all(), MakeOpenApiV2Message),
                          request, kV2Protobuf);
    }
  }
  return NotAcceptableResponse(fmt::format("{}, {}", kJsonDocument, kV2Protobuf));
}

std::optional<http::Response> OpenApiDocuments::AnswerPath(const ServedKinds& kinds,
                                                           std::string_view path,
                                                           const http::Request& request) {
  if (path == kV2) return AnswerVersion2(kinds, request);
  if (path == kV3) return AnswerIndex(kinds, request);
  if (!path.starts_with(kV3) || path.size() <= kV3.size() || path[kV3.size()] != '/') {
    return std::nullopt;
  }
  return AnswerGroupVersion(kinds, std::string(path.substr(kV3.size() + 1)), request);
}

std::vector<std::string> OpenApiDocuments::ListPaths(const ServedKinds& kinds) {
  std::vector<std::string> paths = {std::string(kV2), std::string(kV3)};
  for (const auto& [name, of_version] : GroupByVersion(kinds)) {
    paths.push_back(fmt::format("{}/{}", kV3, name));
  }
  return paths;
}

}  // namespace berth::apiserver
