#include "apiserver/custom/schema_check.h"

#include "apiserver/custom/custom_test_client.h"
#include "apiserver/custom/object_rules.h"
#include "apiserver/custom/schema_tree.h"

namespace berth::apiserver {
namespace {

// All messages, one a line, for a schema in JSON.
std::string Errors(std::string_view text, bool has_status = false) {
  const Json schema = Json::parse(text);
  FieldErrors errors;
  CheckSchema(schema, "s", has_status, errors);
  if (errors.empty()) {
    const StructuralPtr read = ReadSchema(schema);
    api::SchemaArena arena;
    MakeSchemaTree(*read, "", arena);
    CheckDefaults(*read, "s", errors);
    CompileRules(*read, "s", errors);
  }
  const Json status = StatusObject(errors.ToStatus(api::kinds::kCustomResourceDefinition, "x"));
  std::string out;
  for (const Json& cause : base::json::Array(status, {"details", "causes"})) {
    out += fmt::format("{}{}: {}", out.empty() ? "" : "\n", base::json::String(cause, {"field"}),
                       base::json::String(cause, {"message"}));
  }
  return out;
}

// A schema with one property x.
std::string Property(std::string_view schema) {
  return fmt::format(R"({{"type":"object","properties":{{"x":{}}}}})", schema);
}

TEST(SchemaCheckTest, AcceptsStructuralSchemas) {
  for (const std::string_view schema :
       {R"({"type":"object"})", R"({"type":"object","x-kubernetes-preserve-unknown-fields":true})",
        R"({"type":"object","properties":{"metadata":{"type":"object","properties":{"name":
               {"type":"string","maxLength":5}}},"kind":{"type":"string"}}})"}) {
    EXPECT_EQ(Errors(schema), "") << schema;
  }
  for (const std::string_view schema :
       {R"({"type":"string","enum":["a"],"default":"a"})", R"({"x-kubernetes-int-or-string":true})",
        R"({"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]})",
        R"({"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},
               {"type":"string"}]},{"pattern":"a"}]})",
        R"({"x-kubernetes-preserve-unknown-fields":true})",
        R"({"type":"object","x-kubernetes-embedded-resource":true,
               "x-kubernetes-preserve-unknown-fields":true})",
        R"({"type":"object","additionalProperties":{"type":"string"}})",
        R"({"type":"object","additionalProperties":true})",
        R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
               "anyOf":[{"properties":{"a":{"minimum":1}}},{"required":["b"]}],
               "not":{"required":["a","b"]}})",
        R"({"type":"array","items":{"type":"object","required":["n"],"properties":
               {"n":{"type":"string"}}},"x-kubernetes-list-type":"map",
               "x-kubernetes-list-map-keys":["n"]})",
        R"({"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"})",
        R"({"type":"string","format":"whatever","pattern":"^a+$"})",
        R"({"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf",
               "message":"m","reason":"FieldValueForbidden"}]})"}) {
    EXPECT_EQ(Errors(Property(schema)), "") << schema;
  }
}

TEST(SchemaCheckTest, RefusesAtTheRoot) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({})", "s.type: Required value: must not be empty at the root"},
      {R"({"type":"string"})", "s.type: Invalid value: \"string\": must be object at the root"},
      {R"({"type":"object","nullable":true})",
       "s.nullable: Forbidden: nullable cannot be true at the root"},
      {R"({"type":"object","additionalProperties":{"type":"string"}})",
       "s.additionalProperties: Forbidden: must not be used at the root"},
      {R"({"type":"object","properties":{"metadata":{"type":"object","properties":
          {"labels":{"type":"object"}}}}})",
       "s.properties[metadata]: Forbidden: must not specify anything other than name and "
       "generateName, but metadata is implicitly specified"},
      {R"({"type":"object","properties":{"kind":{"type":"integer"}}})",
       "s.properties[kind].type: Invalid value: \"integer\": must be string"},
      {R"({"type":"object","properties":{"apiVersion":{"type":"string","default":"v1"}}})",
       "s.properties[apiVersion].default: Forbidden: must not be set in top-level apiVersion"}};
  for (const auto& [schema, message] : cases) EXPECT_EQ(Errors(schema), message) << schema;
  EXPECT_THAT(Errors(R"({"type":"object","anyOf":[{"required":["a"]}]})", true),
              testing::HasSubstr("fields are allowed at the root of the schema if the status "
                                 "subresource is enabled"));
}

TEST(SchemaCheckTest, RefusesWhatIsNotStructural) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({})",
       "s.properties[x].type: Required value: must not be empty for specified object "
       "fields"},
      {R"({"type":"array","items":{}})",
       "s.properties[x].items.type: Required value: must not be empty for specified array items"},
      {R"({"type":"array"})", "s.properties[x].items: Required value: must be specified"},
      {R"({"type":"text"})",
       "s.properties[x].type: Unsupported value: \"text\": supported values: \"array\", "
       "\"boolean\", \"integer\", \"number\", \"object\", \"string\""},
      {R"({"type":"null"})",
       "s.properties[x].type: Forbidden: type cannot be set to null, use nullable as an "
       "alternative"},
      {R"({"type":"string","anyOf":[{"type":"string"}]})",
       "s.properties[x].anyOf[0].type: Forbidden: must be empty to be structural"},
      {R"({"type":"string","allOf":[{"default":"a"}]})",
       "s.properties[x].allOf[0].default: Forbidden: must be undefined to be structural"},
      {R"({"type":"string","not":{"nullable":true}})",
       "s.properties[x].not.nullable: Forbidden: must be false to be structural"},
      {R"({"type":"object","oneOf":[{"properties":{"a":{"minLength":1}}}]})",
       "s.properties[x].properties[a]: Required value: because it is defined in "
       "s.properties[x].oneOf[0].properties[a]"},
      {R"({"type":"object","oneOf":[{"x-kubernetes-validations":[{"rule":"true"}]}]})",
       "s.properties[x].oneOf[0].x-kubernetes-validations: Forbidden: must be empty to be "
       "structural"},
      {R"({"type":"object","x-kubernetes-embedded-resource":true})",
       "s.properties[x].properties: Required value: must not be empty if "
       "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"},
      {R"({"type":"string","x-kubernetes-embedded-resource":true,
           "x-kubernetes-preserve-unknown-fields":true})",
       "s.properties[x].type: Invalid value: \"string\": must be object if "
       "x-kubernetes-embedded-resource is true"},
      {R"({"x-kubernetes-int-or-string":true,"x-kubernetes-preserve-unknown-fields":true})",
       "s.properties[x].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false "
       "if x-kubernetes-int-or-string is true"},
      {R"({"type":"object","x-kubernetes-preserve-unknown-fields":false})",
       "s.properties[x].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true "
       "or undefined"}};
  for (const auto& [schema, message] : cases) {
    EXPECT_EQ(Errors(Property(schema)), message) << schema;
  }
}

TEST(SchemaCheckTest, RefusesPartsOfOpenApiThatAreNotSupported) {
  for (const std::string_view part :
       {R"("$ref":"a")", R"("definitions":{"a":{"type":"string"}})", R"("id":"a")",
        R"("dependencies":{"a":["b"]})", R"("patternProperties":{"a":{"type":"string"}})",
        R"("additionalItems":true)"}) {
    EXPECT_THAT(Errors(Property(fmt::format(R"({{"type":"string",{}}})", part))),
                testing::EndsWith("is not supported"))
        << part;
  }
  EXPECT_EQ(Errors(Property(R"({"type":"array","items":[{"type":"string"}]})")),
            "s.properties[x].items: Forbidden: items must be a schema object and not an array");
  EXPECT_EQ(Errors(Property(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})")),
            "s.properties[x].uniqueItems: Forbidden: uniqueItems cannot be set to true since the "
            "runtime complexity becomes quadratic");
  EXPECT_EQ(Errors(Property(R"({"type":"object","properties":{"a":{"type":"string"}},
                                "additionalProperties":{"type":"string"}})")),
            "s.properties[x].additionalProperties: Forbidden: additionalProperties and properties "
            "are mutual exclusive");
}

TEST(SchemaCheckTest, RefusesWrongListTypes) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type":"string","x-kubernetes-list-type":"set"})",
       "s.properties[x].type: Invalid value: \"string\": must be array if x-kubernetes-list-type "
       "is specified"},
      {R"({"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"bag"})",
       "s.properties[x].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: "
       "\"atomic\", \"set\", \"map\""},
      {R"({"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"set"})",
       "s.properties[x].items.x-kubernetes-map-type: Invalid value: \"\": must be atomic as item "
       "of a list with x-kubernetes-list-type=set"},
      {R"({"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"map"})",
       "s.properties[x].x-kubernetes-list-map-keys: Required value: must not be empty if "
       "x-kubernetes-list-type is map"},
      {R"({"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"map",
           "x-kubernetes-list-map-keys":["n"]})",
       "s.properties[x].x-kubernetes-list-map-keys: Invalid value: [\"n\"]: entries must all be "
       "names of item properties"},
      {R"({"type":"array","items":{"type":"object","properties":{"n":{"type":"string"}}},
           "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"]})",
       "s.properties[x].items.properties[n].default: Required value: this property is in "
       "x-kubernetes-list-map-keys, so it must have a default or be a required property"},
      {R"({"type":"array","items":{"type":"string"},"x-kubernetes-list-map-keys":["n"]})",
       "s.properties[x].x-kubernetes-list-type: Required value: must be map if "
       "x-kubernetes-list-map-keys is non-empty"},
      {R"({"type":"array","items":{"type":"string","nullable":true},
           "x-kubernetes-list-type":"set"})",
       "s.properties[x].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type "
       "is set"},
      {R"({"type":"string","x-kubernetes-map-type":"atomic"})",
       "s.properties[x].type: Invalid value: \"string\": must be object if x-kubernetes-map-type "
       "is specified"}};
  for (const auto& [schema, message] : cases) {
    EXPECT_EQ(Errors(Property(schema)), message) << schema;
  }
}

TEST(SchemaCheckTest, RefusesDefaultsThatDoNotFit) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type":"string","default":1})",
       "s.properties[x].default: Invalid value: \"integer\": s.properties[x].default in body must "
       "be of type string: \"integer\""},
      {R"({"type":"object","default":{"nope":1}})",
       "s.properties[x].default: Invalid value: {\"nope\":1}: must not have unknown fields"},
      {R"({"type":"object","default":{},"required":["a"],"properties":{"a":{"type":"string"}}})",
       "s.properties[x].default.a: Required value"}};
  for (const auto& [schema, message] : cases) {
    EXPECT_EQ(Errors(Property(schema)), message) << schema;
  }
}

TEST(SchemaCheckTest, RefusesRulesThatCannotBeKept) {
  using testing::HasSubstr;
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"type":"string","x-kubernetes-validations":[{"rule":" "}]})",
       "x-kubernetes-validations[0].rule: Required value: rule is not specified"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"self =="}]})",
       "x-kubernetes-validations[0].rule: Invalid value: \"self ==\": compilation failed: ERROR"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"self.lost == 1"}]})",
       "does not support field selection"},
      {R"({"type":"object","x-kubernetes-validations":[{"rule":"self.lost == 1"}]})",
       "undefined field 'lost'"},
      {R"x({"type":"string","x-kubernetes-validations":[{"rule":"ip.isCanonical(self)"}]})x",
       "undeclared reference to 'ip.isCanonical'"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"self"}]})",
       "expected type 'bool' but found 'string'"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"true","message":"a\nb"}]})",
       "message must not contain line breaks"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"true","messageExpression":"1"}]})",
       "messageExpression compilation failed"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"true","reason":"Why"}]})",
       "reason: Unsupported value: \"Why\""},
      {R"({"type":"object","x-kubernetes-validations":[{"rule":"true","fieldPath":".lost"}]})",
       "fieldPath must be a valid path"},
      {R"({"type":"string","x-kubernetes-validations":[{"rule":"true","optionalOldSelf":true}]})",
       "may not be set if oldSelf is not used in rule"},
      {R"({"type":"array","items":{"type":"string","x-kubernetes-validations":
           [{"rule":"self == oldSelf"}]}})",
       "oldSelf cannot be used on the uncorrelatable portion of the schema within "
       "s.properties[x]"}};
  for (const auto& [schema, message] : cases) {
    EXPECT_THAT(Errors(Property(schema)), HasSubstr(message)) << schema;
  }
}

TEST(SchemaCheckTest, PatternsAreBounded) {
  EXPECT_THAT(Errors(Property(R"({"type":"string","pattern":"["})")),
              testing::HasSubstr("must be a valid regular expression, but isn't"));
  EXPECT_THAT(Errors(Property(R"x({"type":"string","pattern":"(?=a)"})x")),
              testing::HasSubstr("must be a valid regular expression, but isn't"));
  Json schema = {{"type", "object"}};
  for (int i = 0; i < 500; ++i) {
    schema["properties"][fmt::format("p{}", i)] = {{"type", "string"},
                                                   {"pattern", "a{1000}b{1000}"}};
  }
  EXPECT_THAT(Errors(base::json::Dump(schema)),
              testing::HasSubstr("the patterns of the schema are too large together"));
}

// ---- definitions, over HTTP

TEST_F(CustomTest, DefinitionsThatAreWrongAreRefused) {
  const Json good = DefinitionWith({{"type", "object"}});
  const auto changed = [&](const char* pointer, const Json& value) {
    Json definition = good;
    definition[Json::json_pointer(pointer)] = value;
    return definition;
  };
  const Json column = {{"name", "A"}, {"type", "text"}, {"jsonPath", "spec.a"}};
  const std::pair<Json, std::string_view> cases[] = {
      {changed("/metadata/name", "gadgets.example.com"),
       "metadata.name: Invalid value: \"gadgets.example.com\": must be "
       "spec.names.plural+\".\"+spec.group"},
      {changed("/spec/group", "example"),
       "spec.group: Invalid value: \"example\": should be a "
       "domain with at least one dot"},
      {changed("/spec/scope", "Galaxy"),
       "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""},
      {changed("/spec/names/kind", "1Widget"), "may have mixed case, but should otherwise match"},
      {changed("/spec/names/listKind", "Widget"), "kind and listKind may not be the same"},
      {changed("/spec/names/shortNames", Json::array({"W"})), "spec.names.shortNames[0]"},
      {changed("/spec/versions", Json::array()), "spec.versions: Required value"},
      {changed("/spec/versions/0/name", "V1"), "spec.versions[0].name: Invalid value"},
      {changed("/spec/versions/0/storage", false),
       "must have exactly one version marked as storage version"},
      {changed("/spec/versions/1", good["spec"]["versions"][0]),
       "must contain unique version names"},
      {changed("/spec/versions/0/schema", nullptr),
       "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"},
      {changed("/spec/versions/0/additionalPrinterColumns", Json::array({column})),
       "type: Invalid value: \"text\": must be one of boolean,date,integer,number,string"},
      {changed("/spec/versions/0/additionalPrinterColumns", Json::array({column})),
       "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.a\": must be a simple "
       "json "
       "path starting with ."},
      {changed("/spec/versions/0/selectableFields", Json::array({{{"jsonPath", ".spec.lost"}}})),
       "selectableFields[0].jsonPath: Invalid value: \".spec.lost\": is an invalid path"},
      {changed("/spec/versions/0/deprecationWarning", "old"),
       "deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions"},
      {changed("/spec/versions/0/subresources/scale",
               {{"specReplicasPath", ".status.n"}, {"statusReplicasPath", ".status.n"}}),
       "specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec"},
      {changed("/spec/conversion", {{"strategy", "Webhook"}}),
       "spec.conversion.strategy: Unsupported value: \"Webhook\": supported values: \"None\""},
      {changed("/spec/preserveUnknownFields", true),
       "spec.preserveUnknownFields: Invalid value: true: cannot set to true"}};
  for (const auto& [definition, message] : cases) {
    const TestResponse refused = Post(kDefinitions, definition);
    EXPECT_EQ(refused.code, 422) << definition;
    EXPECT_THAT(refused.message(), testing::HasSubstr(message)) << definition;
  }
}

TEST_F(CustomTest, WhatAllVersionsShareIsNamedOnce) {
  Json definition = DefinitionWith({{"type", "object"}});
  Json& versions = definition["spec"]["versions"];
  versions[0]["schema"]["openAPIV3Schema"]["properties"]["x"] = {{"type", "array"}};
  versions.push_back(versions[0]);
  versions[1]["name"] = "v2";
  versions[1]["storage"] = false;
  const auto fields = [&] {
    std::vector<std::string> names;
    const TestResponse refused = Post(kDefinitions, definition);
    for (const Json& cause : refused.json["details"]["causes"]) names.push_back(cause["field"]);
    return names;
  };
  EXPECT_THAT(fields(),
              testing::ElementsAre("spec.validation.openAPIV3Schema.properties[x].items"));
  versions[1]["schema"]["openAPIV3Schema"]["description"] = "differs";
  EXPECT_THAT(fields(),
              testing::ElementsAre("spec.versions[0].schema.openAPIV3Schema.properties[x].items",
                                   "spec.versions[1].schema.openAPIV3Schema.properties[x].items"));
}

TEST_F(CustomTest, GroupsOfKubernetesNeedApproval) {
  Json definition = DefinitionWith({{"type", "object"}});
  definition["metadata"]["name"] = "widgets.snapshot.storage.k8s.io";
  definition["spec"]["group"] = "snapshot.storage.k8s.io";
  EXPECT_THAT(Post(kDefinitions, definition).message(),
              testing::HasSubstr("protected groups must have approval annotation"));
  definition["metadata"]["annotations"] = {
      {"api-approved.kubernetes.io", "https://github.com/kubernetes/enhancements/pull/1"}};
  ASSERT_EQ(Post(kDefinitions, definition).code, 201);
  WaitFor("widgets.snapshot.storage.k8s.io", "KubernetesAPIApprovalPolicyConformant", "True");
}

TEST_F(CustomTest, WhatADefinitionIsOfCannotChange) {
  Define(DefinitionWith({{"type", "object"}}));
  const std::string at = At(kDefinitions, "widgets.example.com");
  const std::pair<Json, std::string_view> cases[] = {
      {{{"spec", {{"scope", "Cluster"}}}},
       "spec.scope: Invalid value: \"Cluster\": field is "
       "immutable"},
      {{{"spec", {{"names", {{"kind", "Gadget"}}}}}}, "spec.names.kind"},
      {{{"spec", {{"group", "example.org"}}}}, "spec.group"},
      {{{"spec", {{"names", {{"plural", "gadgets"}}}}}}, "spec.names.plural"}};
  for (const auto& [patch, message] : cases) {
    const TestResponse refused = Patch(at, patch);
    EXPECT_EQ(refused.code, 422) << patch;
    EXPECT_THAT(refused.message(), testing::HasSubstr(message)) << patch;
  }
  EXPECT_EQ(Patch(at, {{"metadata", {{"labels", {{"a", "b"}}}}}}).json["metadata"]["generation"],
            1);
}

}  // namespace
}  // namespace berth::apiserver
