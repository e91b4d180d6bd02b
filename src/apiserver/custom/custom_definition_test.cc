// Definitions of custom kinds over HTTP: how one is served, is changed, and goes.

#include "apiserver/custom/custom_test_client.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

TEST_F(CustomTest, ADefinitionIsServed) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}}));
  const Json definition = Get(At(kDefinitions, "widgets.example.com")).json;
  EXPECT_EQ(definition["status"]["acceptedNames"], Json({{"plural", "widgets"},
                                                         {"singular", "widget"},
                                                         {"kind", "Widget"},
                                                         {"listKind", "WidgetList"},
                                                         {"shortNames", {"wd"}}}));
  EXPECT_EQ(definition["status"]["storedVersions"], Json::array({"v1"}));
  EXPECT_EQ(definition["spec"]["conversion"]["strategy"], "None");
  EXPECT_EQ(definition["metadata"]["generation"], 1);

  const TestResponse made = Post(kWidgets, Widget("a", {{"color", "red"}}));
  ASSERT_EQ(made.code, 201) << made.body;
  EXPECT_EQ(made.json["apiVersion"], "example.com/v1");
  EXPECT_EQ(made.json["kind"], "Widget");
  EXPECT_EQ(made.json["metadata"]["generation"], 1);
  EXPECT_EQ(Get(kWidgets).json["kind"], "WidgetList");
  EXPECT_EQ(Get("/apis/example.com/v1/widgets").json["items"].size(), 1);
  EXPECT_EQ(Get(At(kWidgets, "a")).json["spec"]["color"], "red");

  const Json groups = Get("/apis").json["groups"];
  EXPECT_TRUE(std::any_of(groups.begin(), groups.end(),
                          [](const Json& group) { return group["name"] == "example.com"; }));
  const Json resources = Get("/apis/example.com/v1").json["resources"];
  ASSERT_EQ(resources.size(), 2);
  EXPECT_EQ(resources[0]["name"], "widgets");
  EXPECT_EQ(resources[0]["shortNames"], Json::array({"wd"}));
  EXPECT_EQ(resources[1]["name"], "widgets/status");
}

TEST_F(CustomTest, ObjectsOfOtherScopesAndVersionsAreNotServed) {
  Json definition = DefinitionWith({{"type", "object"}});
  Json unserved = VersionWith({{"type", "object"}});
  unserved["name"] = "v0";
  unserved["served"] = false;
  unserved["storage"] = false;
  definition["spec"]["versions"].push_back(unserved);
  definition["spec"]["scope"] = "Cluster";
  Define(definition);
  EXPECT_EQ(Post("/apis/example.com/v1/widgets", Widget("a")).code, 201);
  EXPECT_EQ(Get("/apis/example.com/v1/namespaces/default/widgets").code, 404);
  EXPECT_EQ(Get("/apis/example.com/v0/widgets").code, 404);
  EXPECT_EQ(Get("/apis/example.com/v1/gadgets").code, 404);
}

TEST_F(CustomTest, VersionsShowTheSameObjectEachInItsWay) {
  Json definition = DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}});
  Json beta = definition["spec"]["versions"][0];
  beta["name"] = "v1beta1";
  beta["storage"] = false;
  beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {
      {"color", kText}, {"old", {{"type", "string"}, {"default", "d"}}}};
  definition["spec"]["versions"].push_back(beta);
  Define(definition);
  constexpr std::string_view kBeta = "/apis/example.com/v1beta1/namespaces/default/widgets";
  const TestResponse made = Post(kBeta, Widget("a", {{"color", "red"}, {"old", "x"}}));
  EXPECT_EQ(made.json["apiVersion"], "example.com/v1beta1");
  const Json read = Get(At(kWidgets, "a")).json;
  EXPECT_EQ(read["apiVersion"], "example.com/v1");
  EXPECT_EQ(read["spec"], Json({{"color", "red"}}));
  const Json list = Get(kBeta).json;
  EXPECT_EQ(list["apiVersion"], "example.com/v1beta1");
  EXPECT_EQ(list["items"][0]["apiVersion"], "example.com/v1beta1");
  EXPECT_EQ(Patch(At(kBeta, "a"), {{"spec", {{"color", "blue"}}}}).code, 200);
  EXPECT_EQ(Get(At(kWidgets, "a")).json["spec"]["color"], "blue");

  // The other version is stored from now on; both were.
  Json changed = Get(At(kDefinitions, "widgets.example.com")).json;
  changed["spec"]["versions"][0]["storage"] = false;
  changed["spec"]["versions"][1]["storage"] = true;
  const Json after = Put(At(kDefinitions, "widgets.example.com"), changed).json;
  EXPECT_EQ(after["status"]["storedVersions"], Json::array({"v1", "v1beta1"}));
  Json removed = after;
  removed["spec"]["versions"].erase(0);
  const TestResponse refused = Put(At(kDefinitions, "widgets.example.com"), removed);
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(), HasSubstr("v1 was previously a storage version"));
}

TEST_F(CustomTest, AChangedSchemaReadsWhatWasWrittenBefore) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}, {"old", kText}}}}));
  Post(kWidgets, Widget("a", {{"color", "green"}, {"old", "x"}}));
  Json definition = Get(At(kDefinitions, "widgets.example.com")).json;
  definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            ["properties"] = {{"color", {{"type", "string"}, {"enum", {"red", "blue"}}}},
                              {"count", {{"type", "integer"}, {"default", 7}}}};
  // The watch ends with the schema that it began with.
  TestConnection watch(socket());
  watch.Send(RequestText("GET", fmt::format("{}?watch=true", kWidgets), "", ""));
  watch.ReadUntil("\r\n\r\n");
  watch.ReadChunk();
  ASSERT_EQ(Put(At(kDefinitions, "widgets.example.com"), definition).code, 200);
  EXPECT_EQ(watch.ReadChunk(), "");

  EXPECT_EQ(Get(At(kWidgets, "a")).json["spec"], Json({{"color", "green"}, {"count", 7}}));
  EXPECT_EQ(Get(kWidgets).json["items"][0]["spec"], Json({{"color", "green"}, {"count", 7}}));
  // What has become invalid may stay as it is.
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"spec", {{"count", 8}}}}).code, 200);
  EXPECT_EQ(Patch(At(kWidgets, "a"), {{"spec", {{"color", "black"}}}}).code, 422);
  EXPECT_EQ(Post(kWidgets, Widget("b", {{"color", "green"}})).code, 422);
}

TEST_F(CustomTest, NamesInUseAreNotAccepted) {
  Define(DefinitionWith({{"type", "object"}}));
  Json other = DefinitionWith({{"type", "object"}});
  other["metadata"]["name"] = "gadgets.example.com";
  other["spec"]["names"] = {
      {"plural", "gadgets"}, {"kind", "Widget"}, {"shortNames", Json::array({"wd", "gd"})}};
  ASSERT_EQ(Post(kDefinitions, other).code, 201);
  const Json refused = WaitFor("gadgets.example.com", "NamesAccepted", "False");
  std::map<std::string, Json> conditions;
  for (const Json& one : refused["status"]["conditions"]) conditions[one["type"]] = one;
  EXPECT_EQ(conditions["NamesAccepted"]["reason"], "ListKindConflict");
  EXPECT_EQ(conditions["NamesAccepted"]["message"], "\"WidgetList\" is already in use");
  EXPECT_EQ(conditions["Established"]["status"], "False");
  EXPECT_EQ(conditions["Established"]["reason"], "NotAccepted");
  EXPECT_EQ(refused["status"]["acceptedNames"]["plural"], "gadgets");
  EXPECT_FALSE(refused["status"]["acceptedNames"].contains("shortNames"));
  EXPECT_EQ(Get("/apis/example.com/v1/gadgets").code, 404);

  // The names become free.
  EXPECT_EQ(Delete(At(kDefinitions, "widgets.example.com")).code, 200);
  const Json established = WaitFor("gadgets.example.com", "Established", "True");
  EXPECT_EQ(established["status"]["acceptedNames"]["shortNames"], Json::array({"wd", "gd"}));
  EXPECT_EQ(Get("/apis/example.com/v1/gadgets").code, 200);
}

TEST_F(CustomTest, ADefinitionNeverTakesTheNamesOfABuiltInKind) {
  Json definition = DefinitionWith({{"type", "object"}});
  definition["metadata"] = {
      {"name", "storageclasses.storage.k8s.io"},
      {"annotations", {{"api-approved.kubernetes.io", "unapproved, a test"}}}};
  definition["spec"]["group"] = "storage.k8s.io";
  definition["spec"]["scope"] = "Cluster";
  definition["spec"]["names"] = {{"plural", "storageclasses"}, {"kind", "StorageClass"}};
  Post("/apis/storage.k8s.io/v1/storageclasses",
       {{"metadata", {{"name", "kept"}}}, {"provisioner", "p"}});
  ASSERT_EQ(Post(kDefinitions, definition).code, 201);
  WaitFor("storageclasses.storage.k8s.io", "NamesAccepted", "False");
  Delete(At(kDefinitions, "storageclasses.storage.k8s.io"));
  WaitUntilGone(kDefinitions, "storageclasses.storage.k8s.io");
  EXPECT_EQ(Get("/apis/storage.k8s.io/v1/storageclasses/kept").code, 200);
}

TEST_F(CustomTest, DeletingADefinitionDeletesItsObjectsFirst) {
  Define(DefinitionWith({{"type", "object"}}));
  for (int i = 0; i < 20; ++i) Post(kWidgets, Widget(fmt::format("w{}", i)));
  Json held = Widget("held");
  held["metadata"]["finalizers"] = {"example.com/hold"};
  Post(kWidgets, held);
  TestConnection watch(socket());
  watch.Send(RequestText(
      "GET", fmt::format("{}?watch=true&resourceVersion={}", kWidgets, Get(kWidgets).version()), "",
      ""));
  ASSERT_THAT(watch.ReadUntil("\r\n\r\n"), HasSubstr(" 200 "));

  const TestResponse deleted = Delete(At(kDefinitions, "widgets.example.com"));
  EXPECT_EQ(deleted.code, 200);
  EXPECT_EQ(deleted.json["metadata"]["finalizers"],
            Json::array({"customresourcecleanup.apiextensions.k8s.io"}));
  EXPECT_EQ(deleted.json["kind"], "CustomResourceDefinition");
  const Json terminating = WaitFor("widgets.example.com", "Terminating", "True");
  EXPECT_FALSE(terminating.is_null());
  for (int i = 0; i < 20; ++i) WaitUntilGone(kWidgets, fmt::format("w{}", i));
  // The one that is held keeps its definition, which takes no new ones.
  EXPECT_EQ(Get(At(kWidgets, "held")).code, 200);
  const TestResponse refused = Post(kWidgets, Widget("new"));
  EXPECT_EQ(refused.code, 405);
  EXPECT_EQ(refused.message(),
            "create not allowed while custom resource definition is terminating");
  EXPECT_EQ(Get(At(kDefinitions, "widgets.example.com")).code, 200);

  EXPECT_EQ(Patch(At(kWidgets, "held"), {{"metadata", {{"finalizers", nullptr}}}}).code, 200);
  WaitUntilGone(kDefinitions, "widgets.example.com");
  for (std::string chunk; !(chunk = watch.ReadChunk()).empty();) {
    EXPECT_EQ(chunk.find("ERROR"), std::string::npos);
  }

  // A definition of the same name begins with nothing.
  Define(DefinitionWith({{"type", "object"}}));
  EXPECT_EQ(Get(kWidgets).json["items"].size(), 0);
}

TEST_F(CustomTest, ARestartServesWhatWasServed) {
  Define(DefinitionWith({{"type", "object"}, {"properties", {{"color", kText}}}}));
  Post(kWidgets, Widget("a", {{"color", "red"}}));
  server_.reset();
  store_.reset();
  StartServer();
  EXPECT_EQ(Get(At(kWidgets, "a")).json["spec"]["color"], "red");
  EXPECT_EQ(Post(kWidgets, Widget("b", {{"color", 1}})).code, 422);
}

TEST_F(CustomTest, ADeprecatedVersionWarns) {
  Json definition = DefinitionWith({{"type", "object"}});
  for (const char* name : {"v1beta1", "v1alpha1"}) {
    Json version = definition["spec"]["versions"][0];
    version["name"] = name;
    version["storage"] = false;
    version["deprecated"] = true;
    definition["spec"]["versions"].push_back(std::move(version));
  }
  definition["spec"]["versions"][2]["deprecationWarning"] = "Use v1, \"please\"";
  Define(definition);
  EXPECT_THAT(Get("/apis/example.com/v1beta1/widgets").head,
              HasSubstr("Warning: 299 - \"example.com/v1beta1 Widget is deprecated\""));
  EXPECT_THAT(Get("/apis/example.com/v1alpha1/widgets").head,
              HasSubstr("Warning: 299 - \"Use v1, \\\"please\\\"\""));
  EXPECT_THAT(Get("/apis/example.com/v1/widgets").head, testing::Not(HasSubstr("Warning")));
}

}  // namespace
}  // namespace berth::apiserver
