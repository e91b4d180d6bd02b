// For tests of custom resources: a server, and definitions to try on it.
#pragma once

#include <string>

#include "apiserver/api_fixture.h"

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
  inline static const Json kText = {{"type", "string"}};
  inline static const Json kWhole = {{"type", "integer"}};

  // Creates the definition and waits until it is served.
  void Define(const Json& definition) {
    const TestResponse created = Post(kDefinitions, definition);
    ASSERT_EQ(created.code, 201) << created.body;
    WaitFor(base::json::String(definition, {"metadata", "name"}), "Established", "True");
  }

  // The definition, once its condition has this status; it is watched, not polled.
  Json WaitFor(const std::string& name, std::string_view type, std::string_view status) {
    Json last;
    const bool seen =
        Follow(fmt::format("{}?watch=true&fieldSelector=metadata.name={}", kDefinitions, name),
               [&](const Json& event) {
                 last = event["object"];
                 for (const Json& condition : base::json::Array(last, {"status", "conditions"})) {
                   if (condition["type"] == type && condition["status"] == status) return true;
                 }
                 return false;
               });
    EXPECT_TRUE(seen) << name << " is not " << type << "=" << status << ": " << last;
    return last;
  }

  // A watch may end before that: when its kind changes.
  void WaitUntilGone(std::string_view collection, const std::string& name) {
    for (int watches = 0; watches < 3; ++watches) {
      const TestResponse list =
          Get(fmt::format("{}?fieldSelector=metadata.name={}", collection, name));
      if (list.code == 404 || list.json["items"].empty()) return;
      Follow(fmt::format("{}?watch=true&fieldSelector=metadata.name={}&resourceVersion={}",
                         collection, name, list.version()),
             [](const Json& event) { return event["type"] == "DELETED"; });
    }
    ADD_FAILURE() << name << " does not go";
  }

  // Reads events until `done` says so; false if the watch ends before, or is silent for too long.
  bool Follow(const std::string& target, const std::function<bool(const Json&)>& done) {
    TestConnection connection(socket());
    connection.Send(RequestText("GET", target, "", ""));
    if (connection.ReadUntil("\r\n\r\n").find(" 200 ") == std::string::npos) return false;
    for (std::string chunk; !(chunk = connection.ReadChunk()).empty();) {
      for (size_t at = 0; at < chunk.size();) {
        const size_t end = chunk.find('\n', at);
        if (done(base::json::Parse(chunk.substr(at, end - at)).value_or(Json()))) return true;
        at = end == std::string::npos ? chunk.size() : end + 1;
      }
    }
    return false;
  }
};

}  // namespace berth::apiserver
