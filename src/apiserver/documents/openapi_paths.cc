#include "apiserver/documents/openapi_paths.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "apiserver/documents/openapi_parameters.h"
#include "apiserver/pod_streams.h"

namespace berth::apiserver {
namespace {

constexpr const char* kMergePatches[] = {"application/json-patch+json",
                                         "application/merge-patch+json"};
constexpr std::string_view kStrategicPatch = "application/strategic-merge-patch+json";
constexpr std::string_view kApplyPatch = "application/apply-patch+yaml";
constexpr std::string_view kMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.";

// One verb at one path.
struct Operation {
  std::string_view method;  // "get"
  std::string_view action;  // x-kubernetes-action: "list"
  std::string description;
  std::string body;   // definition of the request's body; empty: none
  std::string reply;  // definition of the answer; empty: a text
  int code = 200;
  Json parameters = Json::array();
};

std::string Capitalize(std::string_view text) {
  std::string out(text);
  if (!out.empty()) {
    out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  }
  return out;
}

// Builds the items of one kind.
class Builder {
 public:
  Builder(const api::KindInfo& info, const KindDefinitions& definitions, OpenApi version)
      : info_(info), definitions_(definitions), version_(version), verbs_(VerbsOf(info)) {}

  std::vector<std::pair<std::string, Json>> BuildItems() {
    const std::string plain = info_.url("");
    const std::string scoped = info_.namespaced ? info_.url("{namespace}") : plain;
    if (info_.namespaced) AddCollection(plain, /*everywhere=*/true);
    AddCollection(scoped, /*everywhere=*/false);
    const std::string one = scoped + "/{name}";
    AddObject(one);
    for (const Subresource& sub : SubresourcesOf(info_)) AddSubresource(one, sub);
    return std::move(items_);
  }

 private:
  bool HasVerb(std::string_view verb) const {
    return std::find(verbs_.begin(), verbs_.end(), verb) != verbs_.end();
  }

  // Adds the item at `path` if it has operations.
  void AddItem(const std::string& path, const std::vector<Operation>& operations,
               std::string_view suffix, const Json& kind) {
    if (operations.empty()) return;
    Json item = Json::object();
    for (const Operation& operation : operations) {
      item[std::string(operation.method)] = OperationJson(operation, suffix, kind);
    }
    Json& parameters = item["parameters"] = Json::array();
    if (path.find("{name}") != std::string::npos) {
      parameters.push_back(PathParameter("name", "The object's name.", version_));
    }
    if (path.find("{namespace}") != std::string::npos) {
      parameters.push_back(PathParameter("namespace", "The object's namespace.", version_));
    }
    parameters.push_back(PrettyParameter(version_));
    items_.emplace_back(path, std::move(item));
  }

  void AddCollection(const std::string& path, bool everywhere) {
    std::vector<Operation> all;
    if (HasVerb("list")) {
      all.push_back({.method = "get",
                     .action = "list",
                     .description = fmt::format("list or watch objects of kind {}", info_.kind),
                     .reply = definitions_.list,
                     .parameters = QueryParameters({QueryGroup::kList}, version_)});
    }
    if (!everywhere && HasVerb("create")) {
      all.push_back({.method = "post",
                     .action = "post",
                     .description = fmt::format("create an object of kind {}", info_.kind),
                     .body = definitions_.object,
                     .reply = definitions_.object,
                     .code = 201,
                     .parameters = QueryParameters({QueryGroup::kWrite}, version_)});
    }
    if (!everywhere && HasVerb("deletecollection")) {
      all.push_back(
          {.method = "delete",
           .action = "deletecollection",
           .description = fmt::format("delete objects of kind {}", info_.kind),
           .body = SharedName("DeleteOptions"),
           .reply = SharedName("Status"),
           .parameters = QueryParameters({QueryGroup::kList, QueryGroup::kDelete}, version_)});
    }
    AddItem(path, all, everywhere ? "ForAllNamespaces" : "", OwnKind());
  }

  void AddObject(const std::string& path) {
    std::vector<Operation> all;
    if (HasVerb("get")) all.push_back(ReadOperation(definitions_.object));
    if (HasVerb("update")) all.push_back(ReplaceOperation(definitions_.object));
    if (HasVerb("patch")) all.push_back(PatchOperation(definitions_.object));
    if (HasVerb("delete")) {
      all.push_back({.method = "delete",
                     .action = "delete",
                     .description = fmt::format("delete an object of kind {}", info_.kind),
                     .body = SharedName("DeleteOptions"),
                     .reply = SharedName("Status"),
                     .parameters = QueryParameters({QueryGroup::kDelete}, version_)});
    }
    AddItem(path, all, "", OwnKind());
  }

  void AddSubresource(const std::string& object_path, const Subresource& sub) {
    const std::string body = BodyOf(sub);
    std::vector<Operation> all;
    for (const std::string_view verb : sub.verbs) {
      if (verb == "get") all.push_back(ReadOperation(body));
      if (verb == "update") all.push_back(ReplaceOperation(body));
      if (verb == "patch") all.push_back(PatchOperation(body));
      if (verb == "create") {
        all.push_back(
            {.method = "post",
             .action = "post",
             .description = fmt::format("create {} of an object of kind {}", sub.name, info_.kind),
             .body = body,
             .reply = body.empty() ? SharedName("Status") : body,
             .code = 201,
             .parameters = QueryParameters({QueryGroup::kWrite}, version_)});
      }
    }
    for (Operation& operation : all) {
      if (!PodStreams::Serves(sub.name)) continue;
      operation.parameters = StreamParameters(sub.name);
      operation.action = "connect";
      operation.body.clear();
      operation.reply.clear();
    }
    AddItem(fmt::format("{}/{}", object_path, sub.name), all, Capitalize(sub.name),
            KindReference(sub.group, sub.version, sub.kind));
  }

  Json StreamParameters(std::string_view subresource) const {
    if (subresource == "log") return QueryParameters({QueryGroup::kLog}, version_);
    if (subresource == "portforward") return QueryParameters({QueryGroup::kPorts}, version_);
    if (subresource == "attach") return QueryParameters({QueryGroup::kStream}, version_);
    return QueryParameters({QueryGroup::kCommand, QueryGroup::kStream}, version_);
  }

  // The definition of the object that is read and written at `sub`; empty if there is none.
  std::string BodyOf(const Subresource& sub) const {
    if (sub.kind == info_.kind && sub.group == info_.group) return definitions_.object;
    const std::string api_version =
        sub.group.empty() ? std::string(sub.version) : fmt::format("{}/{}", sub.group, sub.version);
    const api::Schema* schema = api::SchemaOf(api_version, sub.kind);
    return schema == nullptr ? "" : schema->name;
  }

  Operation ReadOperation(const std::string& definition) const {
    return {.method = "get",
            .action = "get",
            .description = fmt::format("read the object of kind {}", info_.kind),
            .reply = definition};
  }
  Operation ReplaceOperation(const std::string& definition) const {
    return {.method = "put",
            .action = "put",
            .description = fmt::format("replace the object of kind {}", info_.kind),
            .body = definition,
            .reply = definition,
            .parameters = QueryParameters({QueryGroup::kWrite}, version_)};
  }
  Operation PatchOperation(const std::string& definition) const {
    return {.method = "patch",
            .action = "patch",
            .description = fmt::format("change parts of the object of kind {}", info_.kind),
            .body = SharedName("Patch"),
            .reply = definition,
            .parameters = QueryParameters({QueryGroup::kWrite, QueryGroup::kForce}, version_)};
  }

  Json OwnKind() const { return KindReference(info_.group, info_.version, info_.kind); }
  static std::string SharedName(std::string_view name) { return fmt::format("{}{}", kMeta, name); }

  std::vector<std::string> PatchTypes() const {
    std::vector<std::string> types(std::begin(kMergePatches), std::end(kMergePatches));
    if (!definitions_.custom) types.emplace_back(kStrategicPatch);
    types.emplace_back(kApplyPatch);
    return types;
  }

  // "listCoreV1NamespacedPod"
  std::string OperationId(const Operation& operation, std::string_view suffix) const {
    std::string group = info_.group.empty() ? "core" : std::string(info_.group);
    std::string camel;
    for (size_t at = 0; at < group.size();) {
      const size_t end = std::min(group.find_first_of(".-", at), group.size());
      camel += Capitalize(std::string_view(group).substr(at, end - at));
      at = end + 1;
    }
    return fmt::format("{}{}{}{}{}{}", VerbName(operation.action), camel, Capitalize(info_.version),
                       info_.namespaced && suffix != "ForAllNamespaces" ? "Namespaced" : "",
                       operation.action == "deletecollection" ? fmt::format("{}s", info_.kind)
                                                              : std::string(info_.kind),
                       suffix);
  }

  static std::string_view VerbName(std::string_view action) {
    if (action == "get") return "read";
    if (action == "post") return "create";
    if (action == "put") return "replace";
    if (action == "deletecollection") return "delete";
    return action;
  }

  Json OperationJson(const Operation& operation, std::string_view suffix, const Json& kind) const {
    Json out = {
        {"description", operation.description},
        // The GET and the POST of exec need different ids, because they are two operations.
        {"operationId", OperationId(operation, suffix) +
                            (operation.action == "connect" ? Capitalize(operation.method) : "")},
        {"tags", Json::array({fmt::format("{}_{}", info_.group.empty() ? "core" : info_.group,
                                          info_.version)})},
        {"parameters", operation.parameters},
        {"x-kubernetes-action", std::string(operation.action)},
        {"x-kubernetes-group-version-kind", kind}};
    version_ == OpenApi::kV2 ? AddBodiesV2(operation, out) : AddBodiesV3(operation, out);
    return out;
  }

  void AddBodiesV2(const Operation& operation, Json& out) const {
    const bool text = operation.reply.empty();
    Json& consumes = out["consumes"] = Json::array({"application/json", "application/yaml"});
    if (operation.method == "patch") consumes = PatchTypes();
    out["produces"] =
        text ? Json::array({"text/plain"}) : Json::array({"application/json", "application/yaml"});
    if (!operation.body.empty()) {
      out["parameters"].push_back({{"name", "body"},
                                   {"in", "body"},
                                   {"required", operation.method != "delete"},
                                   {"schema", SchemaReference(operation.body, version_)}});
    }
    Json& reply = out["responses"][std::to_string(operation.code)];
    reply["description"] = operation.code == 201 ? "Created" : "OK";
    reply["schema"] = text ? Json{{"type", "string"}} : SchemaReference(operation.reply, version_);
  }

  void AddBodiesV3(const Operation& operation, Json& out) const {
    const bool text = operation.reply.empty();
    if (!operation.body.empty()) {
      Json& content = out["requestBody"]["content"];
      const Json schema = {{"schema", SchemaReference(operation.body, version_)}};
      if (operation.method == "patch") {
        for (const std::string& type : PatchTypes()) content[type] = schema;
      } else {
        content["*/*"] = schema;
      }
      if (operation.method != "delete") out["requestBody"]["required"] = true;
    }
    Json& reply = out["responses"][std::to_string(operation.code)];
    reply["description"] = operation.code == 201 ? "Created" : "OK";
    if (text) {
      reply["content"]["text/plain"]["schema"] = {{"type", "string"}};
    } else {
      for (const char* type : {"application/json", "application/yaml"}) {
        reply["content"][type]["schema"] = SchemaReference(operation.reply, version_);
      }
    }
  }

  const api::KindInfo& info_;
  const KindDefinitions& definitions_;
  const OpenApi version_;
  const std::vector<std::string_view> verbs_;
  std::vector<std::pair<std::string, Json>> items_;
};

}  // namespace

std::vector<std::pair<std::string, Json>> MakePathItems(const api::KindInfo& info,
                                                        const KindDefinitions& definitions,
                                                        OpenApi version) {
  return Builder(info, definitions, version).BuildItems();
}

}  // namespace berth::apiserver
