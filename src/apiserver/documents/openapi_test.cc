// OpenAPI: what clients check objects and requests by.

#include "apiserver/documents/openapi.h"

#include <set>

#include "apiserver/api_fixture.h"
#include "apiserver/documents/openapi_custom.h"
#include "apiserver/documents/openapi_document.h"
#include "http/gzip.h"

namespace berth::apiserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kMostDocumentBytes = size_t{16} << 20;  // of a decompressed answer

// All values of "$ref" in `json`.
void References(const Json& json, std::set<std::string>& out) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && key == "$ref" && value.is_string()) out.insert(value);
    References(value, out);
  }
}

const Json& KindOf(const Json& json) { return json["x-kubernetes-group-version-kind"]; }

class OpenApiTest : public ApiTest {
 protected:
  Json V3(std::string_view group_version) {
    const auto index = Get("/openapi/v3");
    EXPECT_EQ(index.code, 200);
    const std::string url = index.json["paths"][std::string(group_version)]["serverRelativeURL"];
    return Get(url).json;
  }
  static std::string HeaderOf(const TestResponse& response, std::string_view name) {
    const std::string mark = fmt::format("\r\n{}: ", name);
    const size_t at = response.head.find(mark);
    if (at == std::string::npos) return "";
    const size_t begin = at + mark.size();
    return response.head.substr(begin, response.head.find("\r\n", begin) - begin);
  }
};

TEST_F(OpenApiTest, EveryGroupAndVersionHasADocumentWhoseReferencesHold) {
  const auto index = Get("/openapi/v3");
  std::set<std::string> expected;
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    expected.insert(info->url_prefix().substr(1));
  }
  std::set<std::string> names;
  for (const auto& [name, entry] : index.json["paths"].items()) {
    names.insert(name);
    const std::string url = entry["serverRelativeURL"];
    EXPECT_THAT(url, StartsWith(fmt::format("/openapi/v3/{}?hash=", name)));
    const auto document = Get(url);
    ASSERT_EQ(document.code, 200) << url;
    EXPECT_THAT(document.head, HasSubstr("Cache-Control: public, immutable\r\n"));
    EXPECT_EQ(document.json["openapi"], "3.0.0");
    std::set<std::string> references;
    References(document.json, references);
    for (const std::string& one : references) {
      ASSERT_THAT(one, StartsWith("#/components/schemas/"));
      EXPECT_TRUE(document.json["components"]["schemas"].contains(one.substr(21))) << one;
    }
  }
  EXPECT_EQ(names, expected);
}

TEST_F(OpenApiTest, EveryKindIsFoundByItsUrlAndItsName) {
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    const Json document = V3(info->url_prefix().substr(1));
    const Json kind = KindReference(info->group, info->version, info->kind);
    const Json& item = document["paths"][info->url(info->namespaced ? "{namespace}" : "")];
    EXPECT_EQ(KindOf(item[info->review ? "post" : "get"]), kind) << info->plural;
    const Json& schemas = document["components"]["schemas"];
    EXPECT_TRUE(std::any_of(schemas.begin(), schemas.end(), [&](const Json& schema) {
      return schema.contains("x-kubernetes-group-version-kind") &&
             KindOf(schema) == Json::array({kind}) && schema["properties"].contains("metadata");
    })) << info->plural;
  }
}

TEST_F(OpenApiTest, WritesTellWhichParametersTheyTake) {
  const Json document = V3("api/v1");
  const Json& pod = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
  std::vector<std::string> names;
  for (const Json& parameter : pod["patch"]["parameters"]) names.push_back(parameter["name"]);
  EXPECT_THAT(names, ElementsAre("dryRun", "fieldManager", "fieldValidation", "force"));
  EXPECT_TRUE(
      pod["patch"]["requestBody"]["content"].contains("application/strategic-merge-patch+json"));
  EXPECT_EQ(pod["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"],
            "#/components/schemas/io.k8s.api.core.v1.Pod");
  EXPECT_FALSE(document["paths"]["/api/v1/pods"].contains("post"));
  EXPECT_TRUE(document["paths"].contains("/api/v1/namespaces/{namespace}/pods/{name}/status"));
  // Each operation has a name of its own.
  std::set<std::string> ids;
  for (const auto& [path, item] : document["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (!operation.is_object()) continue;
      EXPECT_TRUE(ids.insert(operation["operationId"]).second) << path << operation["operationId"];
    }
  }
}

TEST_F(OpenApiTest, SchemasSayHowObjectsMerge) {
  const Json document = V3("api/v1");
  const Json& schemas = document["components"]["schemas"];
  const Json& spec = schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
  EXPECT_EQ(spec["containers"]["x-kubernetes-list-type"], "map");
  EXPECT_EQ(spec["containers"]["x-kubernetes-list-map-keys"], Json::array({"name"}));
  EXPECT_EQ(spec["containers"]["x-kubernetes-patch-merge-key"], "name");
  EXPECT_EQ(spec["containers"]["x-kubernetes-patch-strategy"], "merge");
  EXPECT_EQ(spec["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
  EXPECT_EQ(spec["tolerations"]["x-kubernetes-list-type"], "atomic");
  EXPECT_EQ(spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
  EXPECT_EQ(schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"],
            "TCP");
  EXPECT_EQ(schemas["io.k8s.api.core.v1.ContainerPort"]["required"],
            Json::array({"containerPort"}));
  // Sources of a volume stand beside its name.
  EXPECT_TRUE(schemas["io.k8s.api.core.v1.Volume"]["properties"].contains("persistentVolumeClaim"));
  EXPECT_FALSE(spec["containers"]["description"].get<std::string>().empty());
}

TEST_F(OpenApiTest, AStaleHashLeadsToTheRightOne) {
  const auto moved = Get("/openapi/v3/api/v1?hash=OLD");
  EXPECT_EQ(moved.code, 301);
  const auto document = Get(HeaderOf(moved, "Location"));
  EXPECT_EQ(document.code, 200);
  const std::string tag = HeaderOf(document, "ETag");
  EXPECT_THAT(HeaderOf(moved, "Location"), HasSubstr(tag.substr(1, tag.size() - 2)));
  TestConnection connection(socket());
  connection.Send(
      RequestText("GET", "/openapi/v3/api/v1", "", fmt::format("If-None-Match: {}\r\n", tag)));
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 304 "));
  EXPECT_EQ(Get("/openapi/v3/apis/none/v1").code, 404);
  EXPECT_EQ(Call("GET", "/openapi/v3/api/v1", "", "Accept: text/html\r\n").code, 406);
}

TEST_F(OpenApiTest, ComesCompressedForWhoTakesIt) {
  const auto packed = Call("GET", "/openapi/v3/api/v1", "", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(packed.head, HasSubstr("Content-Encoding: gzip"));
  EXPECT_EQ(http::Gunzip(packed.body, kMostDocumentBytes), Get("/openapi/v3/api/v1").body);
  // Indenting leaves alone what is compressed.
  const auto both =
      Call("GET", "/openapi/v3/api/v1", "", "Accept-Encoding: gzip\r\nUser-Agent: curl/8\r\n");
  EXPECT_EQ(both.body, packed.body);
}

TEST_F(OpenApiTest, VersionTwoTellsTheSame) {
  const auto document = Get("/openapi/v2");
  ASSERT_EQ(document.code, 200);
  EXPECT_EQ(document.json["swagger"], "2.0");
  std::set<std::string> references;
  References(document.json, references);
  for (const std::string& one : references) {
    ASSERT_THAT(one, StartsWith("#/definitions/"));
    EXPECT_TRUE(document.json["definitions"].contains(one.substr(14))) << one;
  }
  const Json& definitions = document.json["definitions"];
  EXPECT_EQ(definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"], "string");
  EXPECT_EQ(KindOf(definitions["io.k8s.api.apps.v1.DaemonSet"]),
            Json::array({KindReference("apps", "v1", "DaemonSet")}));
  const Json& post =
      document.json["paths"]["/apis/apps/v1/namespaces/{namespace}/daemonsets"]["post"];
  EXPECT_EQ(post["parameters"].back()["schema"]["$ref"],
            "#/definitions/io.k8s.api.apps.v1.DaemonSet");
}

// A message's fields, by number: those that hold bytes.
std::multimap<int, std::string> Fields(std::string_view message) {
  std::multimap<int, std::string> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < message.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(message[at++]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    if ((key & 7) == 0) {
      varint();
    } else if ((key & 7) == 1) {
      at += 8;
    } else {
      EXPECT_EQ(key & 7, 2u);
      const uint64_t size = varint();
      fields.emplace(static_cast<int>(key >> 3), message.substr(at, size));
      at += size;
    }
  }
  EXPECT_EQ(at, message.size());
  return fields;
}

std::string Field(std::string_view message, std::initializer_list<int> path) {
  std::string value(message);
  for (const int number : path) {
    const auto fields = Fields(value);
    const auto it = fields.find(number);
    if (it == fields.end()) return "";
    value = std::string(it->second);
  }
  return value;
}

// The value of the entry `name` among the fields `number`: messages {name = 1, value = 2}.
std::string Entry(std::string_view message, int number, std::string_view name) {
  for (const auto& [field, entry] : Fields(message)) {
    if (field == number && Field(entry, {1}) == name) return Field(entry, {2});
  }
  return "";
}

TEST_F(OpenApiTest, VersionTwoComesInProtobuf) {
  for (const char* type : {"application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
                           "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}) {
    const auto reply = Call("GET", "/openapi/v2", "", fmt::format("Accept: {}\r\n", type));
    ASSERT_EQ(reply.code, 200);
    EXPECT_EQ(HeaderOf(reply, "Content-Type"),
              "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    EXPECT_EQ(Field(reply.body, {1}), "2.0");
    EXPECT_EQ(Field(reply.body, {2, 1}), "Kubernetes");
    // Document.definitions: what a Container is.
    const std::string container = Entry(Field(reply.body, {9}), 1, "io.k8s.api.core.v1.Container");
    EXPECT_EQ(Field(container, {22, 1}), "object");
    EXPECT_EQ(Field(container, {19}), "name");
    const std::string ports = Entry(Field(container, {25}), 1, "ports");
    EXPECT_EQ(Field(ports, {22, 1}), "array");
    EXPECT_EQ(Field(ports, {23, 1, 1}), "#/definitions/io.k8s.api.core.v1.ContainerPort");
    EXPECT_EQ(Field(Entry(ports, 31, "x-kubernetes-patch-merge-key"), {2}), "\"containerPort\"");
    // Document.paths: that a patch can be tried without a write, and of what.
    const std::string patch =
        Field(Entry(Field(reply.body, {8}), 2, "/api/v1/namespaces/{namespace}/pods/{name}"), {8});
    EXPECT_EQ(Field(Entry(patch, 13, "x-kubernetes-group-version-kind"), {2}),
              R"({"group":"","kind":"Pod","version":"v1"})");
    EXPECT_EQ(Field(patch, {8, 1, 2, 3, 4}), "dryRun");
    EXPECT_EQ(Field(patch, {8, 1, 2, 3, 2}), "query");
  }
}

const Json kSchema = base::json::Parse(R"({
  "type": "object", "required": ["spec", "maybe"],
  "properties": {
    "spec": {"type": "object", "properties": {
      "size": {"anyOf": [{"type": "integer"}, {"type": "string"}],
               "x-kubernetes-int-or-string": true},
      "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
      "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
               "properties": {"x": {"type": "string"}}},
      "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}}}},
    "maybe": {"type": "string", "nullable": true}}})")
                         .value();

TEST(OpenApiCustomTest, AClientOfVersionTwoRefusesNothingThatTheServerTakes) {
  const Json v3 = MakeCustomDefinition(kSchema, OpenApi::kV3);
  EXPECT_TRUE(v3["properties"]["spec"]["properties"]["size"].contains("anyOf"));
  EXPECT_TRUE(v3["properties"]["maybe"].contains("nullable"));
  EXPECT_TRUE(v3["properties"].contains("metadata"));
  EXPECT_TRUE(v3["properties"]["spec"]["properties"]["pod"]["properties"].contains("apiVersion"));

  const Json v2 = MakeCustomDefinition(kSchema, OpenApi::kV2);
  const Json& spec = v2["properties"]["spec"]["properties"];
  EXPECT_FALSE(spec["size"].contains("anyOf"));
  EXPECT_FALSE(spec["free"].contains("properties"));
  EXPECT_EQ(spec["mode"]["default"], "a");
  EXPECT_FALSE(v2["properties"]["maybe"].contains("type"));
  EXPECT_EQ(v2["required"], Json::array({"spec"}));
}

TEST(OpenApiCustomTest, DefinitionsHaveTheGroupBackwards) {
  EXPECT_EQ(CustomDefinitionName({.group = "snapshot.storage.k8s.io",
                                  .version = "v1",
                                  .kind = "VolumeSnapshot",
                                  .plural = "volumesnapshots",
                                  .singular = "volumesnapshot"}),
            "io.k8s.storage.snapshot.v1.VolumeSnapshot");
}

TEST(OpenApiCustomTest, ACustomKindComesAndGoesAndLeavesTheOthersAlone) {
  static const api::KindInfo info{.group = "example.com",
                                  .version = "v1",
                                  .kind = "Thing",
                                  .plural = "things",
                                  .singular = "thing",
                                  .namespaced = true};
  auto rules = std::make_shared<KindRules>(info);
  rules->custom_schema = base::json::Dump(kSchema);
  KindRegistry registry;
  OpenApiDocuments documents;
  http::Request request;
  const auto find = [&](std::string_view path) {
    return documents.AnswerPath(*registry.Current(), path, request);
  };
  const auto tag = [&] {
    const Json index = base::json::Parse(find("/openapi/v3")->body).value();
    return index["paths"]["api/v1"]["serverRelativeURL"].get<std::string>();
  };
  const std::string before = tag();
  EXPECT_FALSE(find("/openapi/v3/apis/example.com/v1").has_value());

  registry.SetCustom({rules});
  const auto found = find("/openapi/v3/apis/example.com/v1");
  ASSERT_TRUE(found.has_value());
  const Json document = base::json::Parse(found->body).value();
  EXPECT_EQ(document["components"]["schemas"]["com.example.v1.Thing"]["properties"]["spec"]["type"],
            "object");
  EXPECT_TRUE(document["components"]["schemas"].contains("com.example.v1.ThingList"));
  const Json& patch =
      document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things/{name}"]["patch"];
  EXPECT_FALSE(patch["requestBody"]["content"].contains("application/strategic-merge-patch+json"));
  EXPECT_EQ(tag(), before);
  EXPECT_THAT(find("/openapi/v2")->body, HasSubstr("com.example.v1.Thing"));

  registry.SetCustom({});
  EXPECT_FALSE(find("/openapi/v3/apis/example.com/v1").has_value());
  EXPECT_THAT(find("/openapi/v2")->body, testing::Not(HasSubstr("com.example.v1.Thing")));
}

}  // namespace
}  // namespace berth::apiserver
