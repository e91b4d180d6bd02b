// The objects of a custom kind over HTTP: what a client writes, and what it reads back.

#include "apiserver/custom/custom_test_client.h"

namespace berth::apiserver {
namespace {

using base::json::String;
using testing::HasSubstr;

TEST_F(CustomTest, UnknownFieldsArePrunedAndDefaultsAreSet) {
  Define(DefinitionWith(
      {{"type", "object"},
       {"properties",
        {{"color", {{"type", "string"}, {"default", "blue"}}},
         {"size",
          {{"type", "object"},
           {"default", Json::object()},
           {"properties", {{"x", {{"type", "integer"}, {"default", 1}}}}}}},
         {"parts",
          {{"type", "array"},
           {"items",
            {{"type", "object"},
             {"properties",
              {{"name", kText}, {"on", {{"type", "boolean"}, {"default", true}}}}}}}}},
         {"note", {{"type", "string"}, {"nullable", true}, {"default", "x"}}},
         {"free", {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}},
         {"labels", {{"type", "object"}, {"additionalProperties", kText}}}}}}));
  Json widget = Widget("a", {{"nope", 1},
                             {"color", nullptr},
                             {"note", nullptr},
                             {"free", {{"any", {{"thing", Json::array({1, nullptr})}}}}},
                             {"labels", {{"a", "1"}, {"gone", nullptr}}},
                             {"parts", {{{"name", "p"}, {"nope", 1}}, {{"on", false}}}}});
  widget["nope"] = true;
  const Json made = Post(kWidgets, widget).json;
  EXPECT_FALSE(made.contains("nope"));
  EXPECT_EQ(made["spec"], Json({{"color", "blue"},
                                {"size", {{"x", 1}}},
                                {"note", nullptr},
                                {"free", {{"any", {{"thing", {1, nullptr}}}}}},
                                {"labels", {{"a", "1"}}},
                                {"parts", {{{"name", "p"}, {"on", true}}, {{"on", false}}}}}));
  EXPECT_EQ(Get(At(kWidgets, "a")).json["spec"], made["spec"]);
}

TEST_F(CustomTest, WhatDoesNotFitIsRefused) {
  const Json bounded = {{"type", "integer"}, {"minimum", 1}, {"maximum", 10}};
  Define(DefinitionWith(
      {{"type", "object"},
       {"required", {"color"}},
       {"properties",
        {{"color", {{"type", "string"}, {"enum", {"red", "blue"}}}},
         {"count", bounded},
         {"code",
          {{"type", "string"}, {"pattern", "^[a-z]+$"}, {"minLength", 2}, {"maxLength", 4}}},
         {"when", {{"type", "string"}, {"format", "date-time"}}},
         {"ratio",
          {{"type", "number"}, {"minimum", 0}, {"exclusiveMinimum", true}, {"multipleOf", 0.5}}},
         {"port", {{"x-kubernetes-int-or-string", true}}},
         {"tags",
          {{"type", "array"},
           {"maxItems", 2},
           {"items", kText},
           {"x-kubernetes-list-type", "set"}}},
         {"parts",
          {{"type", "array"},
           {"minItems", 1},
           {"x-kubernetes-list-type", "map"},
           {"x-kubernetes-list-map-keys", {"name"}},
           {"items",
            {{"type", "object"}, {"required", {"name"}}, {"properties", {{"name", kText}}}}}}},
         {"labels", {{"type", "object"}, {"maxProperties", 1}, {"additionalProperties", kText}}},
         {"source",
          {{"type", "object"},
           {"properties", {{"a", kText}, {"b", kText}}},
           {"oneOf", {{{"required", {"a"}}}, {{"required", {"b"}}}}}}}}}}));
  const std::string prefix = "Widget.example.com \"w\" is invalid: ";
  const std::pair<Json, std::string> cases[] = {
      {Json::object(), "spec.color: Required value"},
      {{{"color", "green"}},
       "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""},
      {{{"color", 1}},
       "spec.color: Invalid value: \"integer\": spec.color in body must be of type string: "
       "\"integer\""},
      {{{"color", "red"}, {"count", "1"}},
       "spec.count: Invalid value: \"string\": spec.count in body must be of type integer: "
       "\"string\""},
      {{{"color", "red"}, {"count", 1.5}},
       "spec.count: Invalid value: \"number\": spec.count in body must be of type integer: "
       "\"number\""},
      {{{"color", "red"}, {"count", 11}},
       "spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10"},
      {{{"color", "red"}, {"count", 0}},
       "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"},
      {{{"color", "red"}, {"ratio", 0}},
       "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"},
      {{{"color", "red"}, {"ratio", 0.7}},
       "spec.ratio: Invalid value: 0.7: spec.ratio in body should be a multiple of 0.5"},
      {{{"color", "red"}, {"code", "a"}},
       "spec.code: Invalid value: \"a\": spec.code in body should be at least 2 chars long"},
      {{{"color", "red"}, {"code", "abcde"}}, "spec.code: Too long: may not be more than 4 bytes"},
      {{{"color", "red"}, {"code", "A1"}},
       "spec.code: Invalid value: \"A1\": spec.code in body should match '^[a-z]+$'"},
      {{{"color", "red"}, {"when", "yesterday"}},
       "spec.when: Invalid value: \"yesterday\": spec.when in body must be of type date-time: "
       "\"yesterday\""},
      {{{"color", "red"}, {"port", true}},
       "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: "
       "\"boolean\""},
      {{{"color", "red"}, {"tags", {"a", "b", "c"}}},
       "spec.tags: Too many: 3: must have at most 2 items"},
      {{{"color", "red"}, {"tags", {"a", "a"}}}, "spec.tags[1]: Duplicate value: \"a\""},
      {{{"color", "red"}, {"parts", Json::array()}},
       "spec.parts: Invalid value: 0: spec.parts in body should have at least 1 items"},
      {{{"color", "red"}, {"parts", {{{"name", "a"}}, {{"name", "a"}}}}},
       "spec.parts[1]: Duplicate value: {\"name\":\"a\"}"},
      {{{"color", "red"}, {"parts", {{{"name", 1}}}}},
       "spec.parts[0].name: Invalid value: \"integer\": spec.parts[0].name in body must be of type "
       "string: \"integer\""},
      {{{"color", "red"}, {"labels", {{"a", "1"}, {"b", "2"}}}},
       "spec.labels: Too many: 2: must have at most 1 items"},
      {{{"color", "red"}, {"labels", {{"a", 1}}}},
       "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: "
       "\"integer\""},
      {{{"color", "red"}, {"source", Json::object()}},
       "[<nil>: Invalid value: \"\": \"spec.source\" must validate one and only one schema "
       "(oneOf). "
       "Found none valid, spec.source.a: Required value]"},
      {{{"color", "red"}, {"source", {{"a", "1"}, {"b", "2"}}}},
       "<nil>: Invalid value: \"\": \"spec.source\" must validate one and only one schema (oneOf). "
       "Found 2 valid alternatives"}};
  for (const auto& [spec, message] : cases) {
    const TestResponse refused = Post(kWidgets, Widget("w", spec));
    EXPECT_EQ(refused.code, 422) << spec;
    EXPECT_EQ(refused.message(), prefix + message) << spec;
  }
  const Json good = {{"color", "red"},         {"count", 10},
                     {"code", "ab"},           {"when", "2026-01-01T00:00:00.123+01:00"},
                     {"ratio", 1.5},           {"port", "http"},
                     {"tags", {"a", "b"}},     {"parts", {{{"name", "a"}}}},
                     {"labels", {{"a", "1"}}}, {"source", {{"a", "1"}}}};
  EXPECT_EQ(Post(kWidgets, Widget("w", good)).code, 201);
}

TEST_F(CustomTest, StatusIsWrittenApart) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}},
                        {{"type", "object"}, {"properties", {{"count", kWhole}}}}));
  Json widget = Widget("a", {{"color", "red"}});
  widget["status"] = {{"count", 1}};
  Json made = Post(kWidgets, widget).json;
  EXPECT_FALSE(made.contains("status"));

  made["status"] = {{"count", 2}};
  made["spec"]["color"] = "blue";
  const Json after = Put(At(kWidgets, "a/status"), made).json;
  EXPECT_EQ(after["status"]["count"], 2);
  EXPECT_EQ(after["spec"]["color"], "red");
  EXPECT_EQ(after["metadata"]["generation"], 1);
  EXPECT_EQ(Patch(At(kWidgets, "a/status"), {{"status", {{"count", "x"}}}}).code, 422);

  const Json changed =
      Patch(At(kWidgets, "a"), {{"spec", {{"color", "blue"}}}, {"status", {{"count", 3}}}}).json;
  EXPECT_EQ(changed["status"]["count"], 2);
  EXPECT_EQ(changed["metadata"]["generation"], 2);
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"metadata", {{"labels", {{"x", "y"}}}}}})
                .json["metadata"]["generation"],
            2);
}

TEST_F(CustomTest, WithoutSubresourceStatusIsAFieldLikeOthers) {
  Json definition = DefinitionWith({{"type", "object"}},
                                   {{"type", "object"}, {"properties", {{"count", kWhole}}}});
  definition["spec"]["versions"][0].erase("subresources");
  Define(definition);
  Json widget = Widget("a");
  widget["status"] = {{"count", 1}};
  EXPECT_EQ(Post(kWidgets, widget).json["status"]["count"], 1);
  EXPECT_EQ(Get(At(kWidgets, "a/status")).code, 404);
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"status", {{"count", 2}}}}).json["metadata"]["generation"],
            2);
}

TEST_F(CustomTest, UpdatesNeedTheVersionThatTheyChange) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}}));
  Json widget = Post(kWidgets, Widget("a")).json;
  Json blind = widget;
  blind["metadata"].erase("resourceVersion");
  const TestResponse refused = Put(At(kWidgets, "a"), blind);
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(), HasSubstr("must be specified for an update"));
  widget["spec"]["color"] = "red";
  EXPECT_EQ(Put(At(kWidgets, "a"), widget).code, 200);
  EXPECT_EQ(Put(At(kWidgets, "a"), widget).code, 409);
  EXPECT_EQ(Put(At(kWidgets, "b"), Widget("b")).code, 404);
}

TEST_F(CustomTest, PatchesAreMergedButNotStrategically) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}}));
  Post(kWidgets, Widget("a", {{"color", "red"}}));
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"spec", {{"color", "blue"}, {"nope", 1}}}}).json["spec"],
            Json({{"color", "blue"}}));
  const Json replace = Json::array({{{"op", "replace"}, {"path", "/spec/color"}, {"value", "x"}}});
  EXPECT_EQ(Patch(At(kWidgets, "a"), replace, "json-patch+json").json["spec"]["color"], "x");
  const TestResponse strategic =
      Patch(At(kWidgets, "a"), {{"spec", {{"color", "y"}}}}, "strategic-merge-patch+json");
  EXPECT_EQ(strategic.code, 415);
  EXPECT_THAT(strategic.message(),
              HasSubstr("accepted media types include: application/json-patch+json, "
                        "application/merge-patch+json, application/apply-patch+yaml"));
}

TEST_F(CustomTest, TablesHaveTheColumnsOfTheDefinition) {
  Json definition =
      DefinitionWith({{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}},
                     {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}});
  const auto column = [](const char* name, const char* type, const char* path, int priority = 0) {
    return Json{{"name", name}, {"type", type}, {"jsonPath", path}, {"priority", priority}};
  };
  definition["spec"]["versions"][0]["additionalPrinterColumns"] = {
      column("Color", "string", ".spec.color"),
      column("Count", "integer", ".spec.count"),
      column("On", "boolean", ".spec.on"),
      column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
      column("First", "string", ".spec.items[0].name"),
      column("Dotted", "string", ".metadata.annotations['a.b/c']"),
      column("Object", "string", ".spec.object", 1),
      column("Age", "date", ".metadata.creationTimestamp")};
  Define(definition);
  Json widget = Widget("a", {{"color", "red"},
                             {"count", 3},
                             {"on", "yes"},
                             {"items", {{{"name", "i0"}}, {{"name", "i1"}}}},
                             {"object", {{"x", 1}}}});
  widget["metadata"]["annotations"] = {{"a.b/c", "d"}};
  Post(kWidgets, widget);
  Patch(At(kWidgets, "a/status"),
        {{"status",
          {{"conditions",
            {{{"type", "X"}, {"status", "False"}}, {{"type", "Ready"}, {"status", "True"}}}}}}});
  clock_.Advance(std::chrono::minutes(5));
  const Json table =
      Call("GET", kWidgets, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n").json;
  ASSERT_EQ(table["kind"], "Table");
  const Json& columns = table["columnDefinitions"];
  ASSERT_EQ(columns.size(), 9);
  EXPECT_EQ(columns[0]["name"], "Name");
  EXPECT_EQ(columns[7]["priority"], 1);
  EXPECT_EQ(columns[1]["description"],
            "Custom resource definition column (in JSONPath format): .spec.color");
  EXPECT_EQ(table["rows"][0]["cells"],
            Json({"a", "red", 3, nullptr, "True", "i0", "d", R"({"x":1})", "5m"}));
}

TEST_F(CustomTest, ObjectsAreSelectedByTheFieldsThatTheDefinitionNames) {
  Json definition =
      DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}, {"count", kWhole}}}});
  definition["spec"]["versions"][0]["selectableFields"] = {{{"jsonPath", ".spec.color"}},
                                                           {{"jsonPath", ".spec.count"}}};
  Define(definition);
  Post(kWidgets, Widget("a", {{"color", "red"}, {"count", 1}}));
  Post(kWidgets, Widget("b", {{"color", "blue"}}));
  const auto names = [&](std::string_view selector) {
    std::string out;
    const TestResponse list = Get(fmt::format("{}?fieldSelector={}", kWidgets, selector));
    EXPECT_EQ(list.code, 200) << list.body;
    for (const Json& item : list.json["items"]) out += String(item, {"metadata", "name"});
    return out;
  };
  EXPECT_EQ(names("spec.color%3Dred"), "a");
  EXPECT_EQ(names("spec.color!%3Dred"), "b");
  EXPECT_EQ(names("spec.count%3D1"), "a");
  EXPECT_EQ(names("spec.count%3D"), "b");
  const TestResponse refused = Get(fmt::format("{}?fieldSelector=spec.other%3D1", kWidgets));
  EXPECT_EQ(refused.code, 400);
  EXPECT_THAT(refused.message(), HasSubstr("field label not supported: spec.other"));
}

TEST_F(CustomTest, RulesInCelAreEnforced) {
  Define(DefinitionWith(
      {{"type", "object"},
       {"properties",
        {{"driver",
          {{"type", "string"},
           {"x-kubernetes-validations",
            {{{"rule", "self == oldSelf"}, {"message", "driver is immutable once set"}}}}}},
         {"min", kWhole},
         {"max", kWhole},
         {"uid", kText},
         {"parts",
          {{"type", "array"},
           {"x-kubernetes-list-type", "map"},
           {"x-kubernetes-list-map-keys", {"name"}},
           {"items",
            {{"type", "object"},
             {"required", {"name"}},
             {"properties", {{"name", kText}, {"size", kWhole}}},
             {"x-kubernetes-validations",
              {{{"rule", "self.size >= oldSelf.size"},
                {"messageExpression", "'shrinks from ' + string(oldSelf.size)"},
                {"fieldPath", ".size"},
                {"reason", "FieldValueForbidden"}}}}}}}}}},
       {"x-kubernetes-validations",
        {{{"rule", "!has(self.min) || !has(self.max) || self.min <= self.max"}},
         {{"rule", "!has(oldSelf.uid) || has(self.uid)"},
          {"message", "uid is required once set"}}}}}));
  const std::string prefix = "Widget.example.com \"a\" is invalid: ";
  EXPECT_EQ(Post(kWidgets, Widget("a", {{"min", 2}, {"max", 1}})).message(),
            prefix +
                "spec: Invalid value: \"object\": failed rule: !has(self.min) || "
                "!has(self.max) || self.min <= self.max");
  const TestResponse skipped = Post(kWidgets, Widget("a", {{"min", "x"}, {"max", 1}}));
  EXPECT_THAT(skipped.message(), HasSubstr("some validation rules were not checked"));
  ASSERT_EQ(
      Post(kWidgets,
           Widget("a", {{"driver", "d"}, {"uid", "1"}, {"parts", {{{"name", "p"}, {"size", 5}}}}}))
          .code,
      201);
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"spec", {{"driver", "e"}}}}).message(),
            prefix + "spec.driver: Invalid value: \"string\": driver is immutable once set");
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"spec", {{"uid", nullptr}}}}).message(),
            prefix + "spec: Invalid value: \"object\": uid is required once set");
  const auto parts = [](int size) {
    return Json{
        {"spec", {{"parts", {{{"name", "new"}, {"size", 1}}, {{"name", "p"}, {"size", size}}}}}}};
  };
  EXPECT_EQ(Patch(At(kWidgets, "a"), parts(4)).message(),
            prefix + "spec.parts[1].size: Forbidden: shrinks from 5");
  EXPECT_EQ(Patch(At(kWidgets, "a"), parts(6)).code, 200);
}

TEST_F(CustomTest, OnlyJsonAndYamlAreSpoken) {
  Define(DefinitionWith({{"type", "object"}}));
  EXPECT_EQ(
      Call("POST", kWidgets, "k8s", "Content-Type: application/vnd.kubernetes.protobuf\r\n").code,
      415);
  EXPECT_EQ(Call("GET", kWidgets, "", "Accept: application/vnd.kubernetes.protobuf\r\n").code, 406);
  EXPECT_EQ(
      Call("GET", kWidgets, "", "Accept: application/vnd.kubernetes.protobuf,application/json\r\n")
          .code,
      200);
  EXPECT_EQ(Call("POST", kWidgets, "metadata: {name: written}\nspec: {}\n",
                 "Content-Type: application/yaml\r\n")
                .code,
            201);
}

TEST_F(CustomTest, UnknownFieldsAreToldOf) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}}));
  const std::string body = R"({"metadata":{"name":"a"},"spec":{"color":"red","nope":1}})";
  const TestResponse warned = Call("POST", kWidgets, body);
  EXPECT_EQ(warned.code, 201);
  EXPECT_THAT(warned.head, HasSubstr("unknown field"));
  const TestResponse refused =
      Call("POST", fmt::format("{}?fieldValidation=Strict", kWidgets), body);
  EXPECT_EQ(refused.code, 400);
  EXPECT_THAT(refused.message(), HasSubstr("unknown field \"spec.nope\""));
}

TEST_F(CustomTest, ConfigurationsAreAppliedByTheSchema) {
  Define(DefinitionWith({{"type", "object"},
                         {"properties",
                          {{"parts",
                            {{"type", "array"},
                             {"x-kubernetes-list-type", "map"},
                             {"x-kubernetes-list-map-keys", {"name"}},
                             {"items",
                              {{"type", "object"},
                               {"required", {"name"}},
                               {"properties", {{"name", kText}, {"size", kWhole}}}}}}}}}}));
  const auto apply = [&](std::string_view manager, std::string_view name, int size) {
    const Json config = {{"apiVersion", "example.com/v1"},
                         {"kind", "Widget"},
                         {"metadata", {{"name", "a"}}},
                         {"spec", {{"parts", {{{"name", std::string(name)}, {"size", size}}}}}}};
    return Call("PATCH", fmt::format("{}/a?fieldManager={}", kWidgets, manager),
                base::json::Dump(config), "Content-Type: application/apply-patch+yaml\r\n");
  };
  EXPECT_EQ(apply("one", "p", 1).code, 201);
  const TestResponse both = apply("two", "q", 2);
  EXPECT_EQ(both.code, 200) << both.body;
  EXPECT_EQ(both.json["spec"]["parts"].size(), 2);
  EXPECT_EQ(apply("two", "p", 2).code, 409);
}

// A short body could mean gigabytes, because each item's path repeats the long name above it.
TEST_F(CustomTest, LongNamesMakeNoLongErrors) {
  const Json parts = {
      {"type", "object"},
      {"properties",
       {{"parts", {{"type", "array"}, {"items", {{"type", "object"}, {"maxProperties", 0}}}}},
        {"free", {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}};
  Define(DefinitionWith({{"type", "object"}, {"additionalProperties", parts}}));
  const std::string name(20000, 'k');

  Json wrong = Json::array();
  for (int i = 0; i < 200; ++i) wrong.push_back(i % 2 == 0 ? Json(1) : Json({{"x", 1}}));
  const TestResponse refused = Post(kWidgets, Widget("a", {{name, {{"parts", wrong}}}}));
  EXPECT_EQ(refused.code, 422);
  EXPECT_LT(refused.body.size(), 600'000);
  const Json& causes = refused.json["details"]["causes"];
  ASSERT_EQ(causes.size(), 100);
  EXPECT_EQ(causes[0]["field"], "spec." + name.substr(0, 1019) + "...");

  const auto apply = [&](std::string_view manager, int value) {
    Json fields = Json::object();
    for (int i = 0; i < 1000; ++i) fields[fmt::format("a{}", i)] = {{"x", value}};
    const Json config = {{"apiVersion", "example.com/v1"},
                         {"kind", "Widget"},
                         {"metadata", {{"name", "b"}}},
                         {"spec", {{name, {{"free", std::move(fields)}}}}}};
    return Call("PATCH", fmt::format("{}/b?fieldManager={}", kWidgets, manager),
                base::json::Dump(config), "Content-Type: application/apply-patch+yaml\r\n");
  };
  EXPECT_EQ(apply("one", 1).code, 201);
  const TestResponse conflicts = apply("two", 2);
  EXPECT_EQ(conflicts.code, 409);
  EXPECT_LT(conflicts.body.size(), 600'000);
  EXPECT_EQ(conflicts.json["details"]["causes"].size(), 100);
  EXPECT_THAT(conflicts.message(), HasSubstr("Apply failed with 1000 conflicts: "));
  EXPECT_THAT(conflicts.message(), HasSubstr("\n- and 900 more"));
}

TEST_F(CustomTest, ScaleIsRefusedInSoManyWords) {
  Json definition = DefinitionWith({{"type", "object"}, {"properties", {{"replicas", kWhole}}}},
                                   {{"type", "object"}, {"properties", {{"replicas", kWhole}}}});
  definition["spec"]["versions"][0]["subresources"]["scale"] = {
      {"specReplicasPath", ".spec.replicas"}, {"statusReplicasPath", ".status.replicas"}};
  Define(definition);
  Post(kWidgets, Widget("a"));
  const TestResponse refused = Get(At(kWidgets, "a/scale"));
  EXPECT_EQ(refused.code, 405);
  EXPECT_THAT(refused.message(), HasSubstr("does not serve the scale subresource"));
}

}  // namespace
}  // namespace berth::apiserver
