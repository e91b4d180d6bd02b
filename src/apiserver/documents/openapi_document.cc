#include "apiserver/documents/openapi_document.h"

#include <functional>
#include <map>
#include <set>

#include "apiserver/documents/openapi_custom.h"
#include "apiserver/documents/openapi_paths.h"
#include "apiserver/documents/openapi_protobuf.h"
#include "apiserver/documents/server_version.h"

namespace berth::apiserver {
namespace {

constexpr std::string_view kTitle = "Kubernetes";
constexpr std::string_view kPatch = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

// Receives the parts of a document, one after the other.
using Part = std::function<void(std::string_view name, const Json& value)>;

// Makes the parts of the documents about `kinds`. Borrows the kinds.
class Parts {
 public:
  Parts(const std::vector<KindPtr>& kinds, OpenApi version) : version_(version) {
    for (const KindPtr& kind : kinds) IncludeKind(*kind);
    for (const char* shared : {"Status", "DeleteOptions", "WatchEvent", "ListMeta", "ObjectMeta"}) {
      if (const api::Schema* schema = api::NamedSchema(shared)) CollectNamed(*schema, named_);
    }
  }

  void VisitPaths(const Part& part) const {
    // The paths are sorted, because clients list them in the order of the document.
    std::map<std::string, Json> sorted;
    for (const auto& [info, definitions] : kinds_) {
      for (auto& [path, item] : MakePathItems(*info, definitions, version_)) {
        sorted.emplace(path, std::move(item));
      }
    }
    for (const auto& [path, item] : sorted) part(path, item);
  }

  void VisitDefinitions(const Part& part) const {
    std::map<std::string_view, std::function<Json()>> sorted;
    for (const api::Schema* schema : named_) {
      sorted.emplace(schema->name, [this, schema] { return SchemaDefinition(*schema, version_); });
    }
    for (const auto& [name, make] : custom_) sorted.emplace(name, make);
    sorted.emplace(kPatch, [] {
      return Json{{"type", "object"},
                  {"description",
                   "A patch: JSON patch, merge patch, strategic merge patch or apply patch."}};
    });
    for (const auto& [name, make] : sorted) {
      Json definition = make();
      const auto kinds = references_.find(std::string(name));
      if (kinds != references_.end()) {
        definition["x-kubernetes-group-version-kind"] = kinds->second;
      }
      part(name, definition);
    }
  }

 private:
  void IncludeKind(const KindRules& kind) {
    const api::KindInfo& info = *kind.info;
    const api::Schema* schema = api::SchemaOf(info);
    KindDefinitions definitions;
    if (schema != nullptr) {
      definitions = {.object = schema->name, .list = schema->name + "List"};
      CollectNamed(*schema, named_);
      if (const api::Schema* list = api::NamedSchema(definitions.list)) CollectNamed(*list, named_);
    } else {
      definitions.object = CustomDefinitionName(info);
      definitions.list = definitions.object + "List";
      definitions.custom = true;
      IncludeCustom(kind, definitions);
    }
    AddReference(definitions.object, info, info.kind);
    AddReference(definitions.list, info, kind.list());
    // Adds the definitions that subresources read and write.
    for (const Subresource& sub : SubresourcesOf(info)) {
      const std::string api_version = sub.group.empty()
                                          ? std::string(sub.version)
                                          : fmt::format("{}/{}", sub.group, sub.version);
      const api::Schema* body = api::SchemaOf(api_version, sub.kind);
      if (body == nullptr || body == schema) continue;
      CollectNamed(*body, named_);
      references_[body->name] = Json::array({KindReference(sub.group, sub.version, sub.kind)});
    }
    kinds_.emplace_back(&info, std::move(definitions));
  }

  void IncludeCustom(const KindRules& kind, const KindDefinitions& definitions) {
    const api::KindInfo& info = *kind.info;
    custom_.emplace(definitions.object, [this, &kind] {
      return MakeCustomDefinition(base::json::Parse(kind.custom_schema).value_or(Json()), version_);
    });
    custom_.emplace(definitions.list, [this, &info, object = definitions.object] {
      return MakeListDefinition(object, info.kind, version_);
    });
  }

  void AddReference(const std::string& definition, const api::KindInfo& info,
                    std::string_view kind) {
    Json& list = references_[definition];
    if (list.is_null()) list = Json::array();
    list.push_back(KindReference(info.group, info.version, kind));
  }

  const OpenApi version_;
  std::vector<std::pair<const api::KindInfo*, KindDefinitions>> kinds_;
  std::set<const api::Schema*> named_;
  std::map<std::string, std::function<Json()>> custom_;
  std::map<std::string, Json> references_;  // definition to kinds
};

// Appends the members of a JSON object to a text, one after the other.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) {}
  void operator()(std::string_view name, const Json& value) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += base::json::Dump(Json(std::string(name)));
    out_ += ':';
    out_ += base::json::Dump(value);
  }

 private:
  std::string& out_;
  bool first_ = true;
};

std::string InfoText() {
  return base::json::Dump({{"title", std::string(kTitle)}, {"version", ServerVersion()}});
}

}  // namespace

std::string MakeOpenApiV3Document(const std::vector<KindPtr>& kinds) {
  const Parts parts(kinds, OpenApi::kV3);
  std::string out = fmt::format(R"({{"openapi":"3.0.0","info":{},"paths":{{)", InfoText());
  parts.VisitPaths(Members(out));
  out += R"(},"components":{"schemas":{)";
  parts.VisitDefinitions(Members(out));
  return out + "}}}";
}

std::string MakeOpenApiV2Document(const std::vector<KindPtr>& kinds) {
  const Parts parts(kinds, OpenApi::kV2);
  std::string out = fmt::format(R"({{"swagger":"2.0","info":{},"paths":{{)", InfoText());
  parts.VisitPaths(Members(out));
  out += R"(},"definitions":{)";
  parts.VisitDefinitions(Members(out));
  return out + "}}";
}

std::string MakeOpenApiV2Message(const std::vector<KindPtr>& kinds) {
  const Parts parts(kinds, OpenApi::kV2);
  OpenApiMessage message;
  parts.VisitPaths([&](std::string_view path, const Json& item) { message.AddPath(path, item); });
  parts.VisitDefinitions(
      [&](std::string_view name, const Json& schema) { message.AddDefinition(name, schema); });
  return message.Finish(kTitle, ServerVersion());
}

}  // namespace berth::apiserver
