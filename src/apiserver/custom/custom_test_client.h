// For tests of custom resources: a server, and definitions to try on it.
#pragma once

#include <string>

#include "apiserver/test_client.h"

namespace berth::apiserver {

inline constexpr std::string_view kDefinitions =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
inline constexpr std::string_view kWidgets = "/apis/example.com/v1/namespaces/default/widgets";

// A version named v1 that is served and stored, with this schema.
inline Json VersionWith(Json schema) {
  return {{"name", "v1"},
          {"served", true},
          {"storage", true},
          {"schema", {{"openAPIV3Schema", std::move(schema)}}}};
}

// widgets.example.com with these versions.
inline Json DefinitionOf(Json versions) {
  return {
      {"apiVersion", "apiextensions.k8s.io/v1"},
      {"kind", "CustomResourceDefinition"},
      {"metadata", {{"name", "widgets.example.com"}}},
      {"spec",
       {{"group", "example.com"},
        {"scope", "Namespaced"},
        {"names", {{"plural", "widgets"}, {"kind", "Widget"}, {"shortNames", Json::array({"wd"})}}},
        {"versions", std::move(versions)}}}};
}

// An object schema of spec and status, with a status subresource.
inline Json DefinitionWith(Json spec_schema, Json status_schema = {{"type", "object"}}) {
  Json version = VersionWith(
      {{"type", "object"},
       {"properties", {{"spec", std::move(spec_schema)}, {"status", std::move(status_schema)}}}});
  version["subresources"] = {{"status", Json::object()}};
  return DefinitionOf(Json::array({std::move(version)}));
}

inline Json Widget(std::string_view name, Json spec = Json::object()) {
  return {{"metadata", {{"name", std::string(name)}}}, {"spec", std::move(spec)}};
}

class CustomTest : public ApiTest {
 protected:
  // Creates the definition and waits until it is served.
  void Define(const Json& definition) {
    const TestResponse created = Post(kDefinitions, definition);
    ASSERT_EQ(created.code, 201) << created.body;
    WaitFor(base::json::String(definition, {"metadata", "name"}), "Established", "True");
  }

  // The definition, once its condition has this status; it is watched, not polled.
  Json WaitFor(const std::string& name, std::string_view type, std::string_view status) {
    Json last;
    Follow(fmt::format("{}?watch=true&fieldSelector=metadata.name={}", kDefinitions, name),
           [&](const Json& event) {
             last = event["object"];
             for (const Json& condition : base::json::Array(last, {"status", "conditions"})) {
               if (condition["type"] == type && condition["status"] == status) return true;
             }
             return false;
           });
    return last;
  }

  void WaitUntilGone(std::string_view collection, const std::string& name) {
    if (Get(At(collection, name)).code == 404) return;
    bool listed = false;
    Follow(fmt::format("{}?watch=true&fieldSelector=metadata.name={}", collection, name),
           [&](const Json& event) {
             listed = true;
             return event["type"] == "DELETED";
           });
    EXPECT_TRUE(listed || Get(At(collection, name)).code == 404);
  }

  // Reads events until `done` says so; a failure if the watch ends before.
  void Follow(const std::string& target, const std::function<bool(const Json&)>& done) {
    TestConnection connection(socket());
    connection.Send(RequestText("GET", target, "", ""));
    ASSERT_THAT(connection.ReadUntil("\r\n\r\n"), testing::HasSubstr(" 200 "));
    while (true) {
      const std::string chunk = connection.ReadChunk();
      ASSERT_FALSE(chunk.empty()) << "the watch of " << target << " ended";
      for (size_t at = 0; at < chunk.size();) {
        const size_t end = chunk.find('\n', at);
        if (done(base::json::Parse(chunk.substr(at, end - at)).value_or(Json()))) return;
        at = end == std::string::npos ? chunk.size() : end + 1;
      }
    }
  }
};

}  // namespace berth::apiserver
