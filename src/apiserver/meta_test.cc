// The rules of metadata and of writes that all kinds share, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

Json Attachment(std::string_view name) {
  return {{"metadata", {{"name", std::string(name)}}},
          {"spec",
           {{"attacher", "d"}, {"nodeName", "n"}, {"source", {{"persistentVolumeName", "v"}}}}}};
}

TEST_F(ApiTest, CreateDiscardsWhatTheServerSets) {
  Json object = PodNamed("a");
  object["metadata"]["uid"] = "mine";
  object["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z";
  object["metadata"]["deletionTimestamp"] = "2000-01-01T00:00:00Z";
  object["metadata"]["generation"] = 7;
  object["status"] = {{"phase", "Running"}};
  const auto created = Post(kPods, object);
  ASSERT_EQ(created.code, 201) << created.body;
  const Json& metadata = created.json["metadata"];
  EXPECT_NE(metadata["uid"], "mine");
  EXPECT_EQ(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_FALSE(metadata.contains("deletionTimestamp"));
  EXPECT_EQ(metadata["generation"], 1);
  EXPECT_EQ(created.json["status"]["phase"], "Pending");
}

TEST_F(ApiTest, AGenerationThatIsNotCountedIsTheClients) {
  Json object = ConfigMap("a");
  object["metadata"]["generation"] = -1;
  const auto refused = Post(kConfigMaps, object);
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(), HasSubstr("metadata.generation: Invalid value: -1"));
  object["metadata"]["generation"] = 77;
  EXPECT_EQ(Post(kConfigMaps, object).json["metadata"]["generation"], 77);
  EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"metadata", {{"generation", 5}}}})
                .json["metadata"]["generation"],
            77);
}

TEST_F(ApiTest, CreateRefusesAResourceVersion) {
  Json object = ConfigMap("a");
  object["metadata"]["resourceVersion"] = "3";
  const auto created = Post(kConfigMaps, object);
  EXPECT_EQ(created.code, 500);
  EXPECT_EQ(created.message(), "resourceVersion should not be set on objects to be created");
}

TEST_F(ApiTest, CreateOfATakenNameConflicts) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  const auto again = Post(kConfigMaps, ConfigMap("a"));
  EXPECT_EQ(again.code, 409);
  EXPECT_EQ(again.reason(), "AlreadyExists");
  EXPECT_EQ(again.message(), "configmaps \"a\" already exists");
}

TEST_F(ApiTest, GeneratesNames) {
  const std::string prefix(70, 'x');
  const auto created = Post(kConfigMaps, {{"metadata", {{"generateName", prefix}}}});
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_THAT(created.json["metadata"]["name"].get<std::string>(),
              MatchesRegex("x{58}[bcdfghjklmnpqrstvwxz2456789]{5}"));
}

TEST_F(ApiTest, AnUpdateThatChangesNothingKeepsTheRevision) {
  const auto created = Post(kConfigMaps, ConfigMap("a", {{"k", "v"}}));
  EXPECT_EQ(Put(At(kConfigMaps, "a"), created.json).version(), created.version());
  EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"data", {{"k", "v"}}}}).version(), created.version());
}

TEST_F(ApiTest, PutWithoutRevisionIsUnconditionalForCoreKindsOnly) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  EXPECT_EQ(Put(At(kConfigMaps, "a"), ConfigMap("a", {{"k", "v"}})).code, 200);
  ASSERT_EQ(Post(kAttachments, Attachment("a")).code, 201);
  const auto put = Put(At(kAttachments, "a"), Attachment("a"));
  EXPECT_EQ(put.code, 422);
  EXPECT_THAT(put.message(),
              HasSubstr("metadata.resourceVersion: Invalid value: 0x0: must be specified "
                        "for an update"));
}

TEST_F(ApiTest, PutOfAMissingObjectCreatesLeasesButNotOthers) {
  EXPECT_EQ(Put(At(kLeases, "a"), {{"metadata", {{"name", "a"}}}, {"spec", Json::object()}}).code,
            201);
  EXPECT_EQ(Put(At(kConfigMaps, "a"), ConfigMap("a")).code, 404);
}

TEST_F(ApiTest, PutChecksNameNamespaceAndUid) {
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  EXPECT_EQ(Put(At(kConfigMaps, "b"), created.json).message(),
            "the name of the object (a) does not match the name on the URL (b)");
  Json elsewhere = created.json;
  elsewhere["metadata"]["namespace"] = "kube-system";
  EXPECT_EQ(Put(At(kConfigMaps, "a"), elsewhere).code, 400);
  Json other = ConfigMap("a");
  other["metadata"]["uid"] = "another";
  const auto put = Put(At(kConfigMaps, "a"), other);
  EXPECT_EQ(put.code, 409);
  EXPECT_THAT(put.message(), HasSubstr("Precondition failed: UID in precondition: another"));
}

TEST_F(ApiTest, StatusAndSpecAreWrittenApart) {
  const auto created = Post(kPods, PodNamed("a"));
  Json object = created.json;
  object["status"]["phase"] = "Running";
  object["metadata"]["labels"] = {{"l", "1"}};
  const auto main = Put(At(kPods, "a"), object);
  EXPECT_EQ(main.json["status"]["phase"], "Pending");
  EXPECT_EQ(main.json["metadata"]["labels"]["l"], "1");
  EXPECT_EQ(main.json["metadata"]["generation"], 1);

  const auto status = Patch(At(kPods, "a") + "/status", {{"status", {{"phase", "Running"}}},
                                                         {"spec", {{"nodeName", "sneaky"}}}});
  EXPECT_EQ(status.code, 200) << status.body;
  EXPECT_EQ(status.json["status"]["phase"], "Running");
  EXPECT_FALSE(status.json["spec"].contains("nodeName"));
  EXPECT_EQ(Get(At(kPods, "a") + "/status").json, status.json);
}

TEST_F(ApiTest, FinalizersHoldADeletedObjectUntilTheLastGoes) {
  Json object = ConfigMap("a");
  object["metadata"]["finalizers"] = {"berth.dev/x"};
  ASSERT_EQ(Post(kConfigMaps, object).code, 201);
  const auto deleted = Delete(At(kConfigMaps, "a"));
  EXPECT_EQ(deleted.code, 200);
  EXPECT_EQ(deleted.json["kind"], "ConfigMap");
  EXPECT_EQ(deleted.json["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(deleted.json["metadata"]["deletionGracePeriodSeconds"], 0);
  EXPECT_EQ(Delete(At(kConfigMaps, "a")).version(), deleted.version());

  const auto more =
      Patch(At(kConfigMaps, "a"), {{"metadata", {{"finalizers", {"berth.dev/x", "berth.dev/y"}}}}});
  EXPECT_EQ(more.code, 422);
  EXPECT_THAT(more.message(),
              HasSubstr("no new finalizers can be added if the object is being deleted, "
                        "found new finalizers []string{\"berth.dev/y\"}"));

  EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"metadata", {{"finalizers", nullptr}}}}).code, 200);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(ApiTest, DeletePreconditionsMustHold) {
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  for (const auto& [field, value] : {std::pair{"uid", "x"}, std::pair{"resourceVersion", "1"}}) {
    const auto refused = Delete(At(kConfigMaps, "a"), {{"preconditions", {{field, value}}}});
    EXPECT_EQ(refused.code, 409) << field;
    EXPECT_EQ(refused.json["details"], Json({{"kind", "ConfigMap"}, {"name", "a"}})) << field;
    EXPECT_THAT(refused.message(),
                StartsWith("Operation cannot be fulfilled on ConfigMap \"a\": the "))
        << field;
  }
  EXPECT_THAT(
      Delete(At(kConfigMaps, "a"), {{"preconditions", {{"resourceVersion", "1"}}}}).message(),
      testing::EndsWith(
          fmt::format("the ResourceVersion in the precondition (1) does not match the "
                      "ResourceVersion in record ({}). The object might have been modified",
                      created.version())));
  EXPECT_EQ(
      Delete(At(kConfigMaps, "a"),
             {{"preconditions",
               {{"uid", created.json["metadata"]["uid"]}, {"resourceVersion", created.version()}}}})
          .code,
      200);
}

TEST_F(ApiTest, PodOnANodeIsDeletedInTwoSteps) {
  ASSERT_EQ(Post(kPods, PodNamed("a")).code, 201);
  const auto bound = Post(At(kPods, "a") + "/binding",
                          {{"metadata", {{"name", "a"}, {"annotations", {{"why", "fits"}}}}},
                           {"target", {{"kind", "Node"}, {"name", "n1"}}}});
  ASSERT_EQ(bound.code, 201) << bound.body;
  EXPECT_EQ(bound.json["status"], "Success");
  const auto pod = Get(At(kPods, "a"));
  EXPECT_EQ(pod.json["spec"]["nodeName"], "n1");
  EXPECT_EQ(pod.json["metadata"]["annotations"]["why"], "fits");
  EXPECT_EQ(Post(At(kPods, "a") + "/binding", {{"target", {{"name", "n2"}}}}).code, 409);

  const auto deleted = Delete(At(kPods, "a"));
  EXPECT_EQ(deleted.json["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
  EXPECT_EQ(deleted.json["metadata"]["deletionGracePeriodSeconds"], 30);
  // Later deletes only shorten.
  EXPECT_EQ(Delete(At(kPods, "a"), {{"gracePeriodSeconds", 60}}).version(), deleted.version());
  EXPECT_EQ(
      Delete(At(kPods, "a"), {{"gracePeriodSeconds", 5}}).json["metadata"]["deletionTimestamp"],
      "2026-01-01T00:00:05Z");
  EXPECT_EQ(Delete(At(kPods, "a"), {{"gracePeriodSeconds", 0}}).code, 200);
  EXPECT_EQ(Get(At(kPods, "a")).code, 404);
}

TEST_F(ApiTest, PodWithoutNodeOrTerminatedIsRemovedAtOnce) {
  ASSERT_EQ(Post(kPods, PodNamed("a")).code, 201);
  EXPECT_EQ(Delete(At(kPods, "a")).code, 200);
  EXPECT_EQ(Get(At(kPods, "a")).code, 404);

  Json placed = PodNamed("b");
  placed["spec"]["nodeName"] = "n1";
  ASSERT_EQ(Post(kPods, placed).code, 201);
  ASSERT_EQ(Patch(At(kPods, "b") + "/status", {{"status", {{"phase", "Succeeded"}}}}).code, 200);
  EXPECT_EQ(Delete(At(kPods, "b")).code, 200);
  EXPECT_EQ(Get(At(kPods, "b")).code, 404);
}

TEST_F(ApiTest, DryRunStoresNothing) {
  EXPECT_EQ(Post(std::string(kConfigMaps) + "?dryRun=All", ConfigMap("a")).code, 201);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  EXPECT_EQ(Patch(At(kConfigMaps, "a") + "?dryRun=All", {{"data", {{"k", "v"}}}}).json["data"]["k"],
            "v");
  EXPECT_EQ(Delete(At(kConfigMaps, "a") + "?dryRun=All").code, 200);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).json, created.json);
  EXPECT_EQ(Post(std::string(kConfigMaps) + "?dryRun=Some", ConfigMap("b")).code, 422);
}

TEST_F(ApiTest, PatchTypesEachDoTheirKind) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a", {{"x", "1"}, {"y", "2"}})).code, 201);
  EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"data", {{"x", nullptr}}}}).json["data"],
            Json({{"y", "2"}}));
  EXPECT_EQ(
      Patch(At(kConfigMaps, "a"),
            Json::array({{{"op", "add"}, {"path", "/data/z"}, {"value", "3"}}}), "json-patch+json")
          .json["data"]["z"],
      "3");
  const auto failed = Patch(At(kConfigMaps, "a"),
                            Json::array({{{"op", "test"}, {"path", "/data/z"}, {"value", "4"}}}),
                            "json-patch+json");
  EXPECT_EQ(failed.code, 422) << failed.body;
  EXPECT_EQ(
      Patch(At(kConfigMaps, "a"), {{"data", {{"w", "5"}}}}, "strategic-merge-patch+json").code,
      200);
  const auto unsupported = Patch(At(kConfigMaps, "a"), Json::object(), "apply-patch+cbor");
  EXPECT_EQ(unsupported.code, 415);
  EXPECT_EQ(unsupported.message(), "415: Unsupported Media Type");
  const auto directive =
      Patch(At(kConfigMaps, "a"), {{"data", {{"$patch", "merge"}}}}, "strategic-merge-patch+json");
  EXPECT_EQ(directive.code, 500);
  EXPECT_FALSE(directive.json.contains("reason"));
  EXPECT_EQ(Patch(At(kConfigMaps, "a"), Json(7), "json-patch+json").code, 400);
}

TEST_F(ApiTest, PatchesCannotMakeAnObjectThatNoRequestCould) {
  constexpr std::string_view kNodes = "/api/v1/nodes";
  ASSERT_EQ(Post(kNodes, {{"metadata", {{"name", "n"}}}}).code, 201);
  const auto images = [](size_t bytes, std::string_view path) {
    return Json::array({{{"op", "add"},
                         {"path", std::string(path)},
                         {"value", {{"names", {std::string(bytes, 'x')}}}}}});
  };
  const std::string status = At(kNodes, "n") + "/status";
  const Json list = {{"status", {{"images", Json::array()}}}};
  ASSERT_EQ(Patch(status, list).code, 200);
  EXPECT_EQ(Patch(status, images(1'500'000, "/status/images/-"), "json-patch+json").code, 200);
  const auto larger = Patch(status, images(2'000'000, "/status/images/-"), "json-patch+json");
  EXPECT_EQ(larger.code, 413) << larger.body.substr(0, 300);

  constexpr std::string_view kDefinitions =
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  const Json definition = Json::parse(R"({
      "metadata": {"name": "things.example.com"},
      "spec": {"group": "example.com", "scope": "Namespaced",
               "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                         "listKind": "ThingList"},
               "versions": [{"name": "v1", "served": true, "storage": true,
                             "schema": {"openAPIV3Schema": {"type": "object"}}}]}})");
  ASSERT_EQ(Post(kDefinitions, definition).code, 201);
  Json deep = "leaf";
  for (int i = 0; i < 45; ++i) deep = Json{{"n", std::move(deep)}};
  const auto add = [&](const std::string& path) {
    return Patch(At(kDefinitions, "things.example.com"),
                 Json::array({{{"op", "add"}, {"path", path}, {"value", deep}}}),
                 "json-patch+json");
  };
  std::string path = "/spec/versions/0/schema/openAPIV3Schema/example";
  EXPECT_EQ(add(path).code, 200);
  for (int i = 0; i < 45; ++i) path += "/n";
  EXPECT_EQ(add(path).code, 413);
  EXPECT_EQ(Get(At(kDefinitions, "things.example.com")).code, 200);
}

TEST_F(ApiTest, RevisionInAPatchIsAPrecondition) {
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  ASSERT_EQ(Patch(At(kConfigMaps, "a"), {{"data", {{"k", "1"}}}}).code, 200);
  const auto stale =
      Patch(At(kConfigMaps, "a"),
            {{"metadata", {{"resourceVersion", created.version()}}}, {"data", {{"k", "2"}}}});
  EXPECT_EQ(stale.code, 409);
  EXPECT_EQ(stale.reason(), "Conflict");
}

TEST_F(ApiTest, PatchesWithoutRevisionAllTakeEffectHoweverTheyCollide) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  constexpr int kClients = 4;
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([this, i] {
      EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"data", {{std::to_string(i), "x"}}}}).code, 200);
    });
  }
  clients.clear();
  EXPECT_EQ(Get(At(kConfigMaps, "a")).json["data"].size(), size_t{kClients});
}

TEST_F(ApiTest, NamespacedCreatesNeedALivingNamespace) {
  const auto missing = Post("/api/v1/namespaces/nope/configmaps", ConfigMap("a"));
  EXPECT_EQ(missing.code, 404);
  EXPECT_EQ(missing.message(), "namespaces \"nope\" not found");

  Json ns = {{"metadata", {{"name", "ending"}, {"finalizers", {"berth.dev/x"}}}}};
  ASSERT_EQ(Post("/api/v1/namespaces", ns).code, 201);
  ASSERT_EQ(Delete("/api/v1/namespaces/ending").code, 200);
  const auto refused = Post("/api/v1/namespaces/ending/configmaps", ConfigMap("a"));
  EXPECT_EQ(refused.code, 403);
  EXPECT_THAT(refused.message(), HasSubstr("because it is being terminated"));
  EXPECT_EQ(refused.json["details"]["causes"][0]["reason"], "NamespaceTerminating");
  EXPECT_EQ(refused.json["details"]["causes"][0]["field"], "metadata.namespace");
}

TEST_F(ApiTest, DeleteCollectionTakesWhatTheSelectorsMatch) {
  for (const char* name : {"a", "b", "c"}) {
    Json object = ConfigMap(name);
    object["metadata"]["labels"] = {{"keep", name == std::string("b") ? "yes" : "no"}};
    ASSERT_EQ(Post(kConfigMaps, object).code, 201);
  }
  const auto deleted = Delete(std::string(kConfigMaps) + "?labelSelector=keep%3Dno");
  EXPECT_EQ(deleted.code, 200) << deleted.body;
  EXPECT_EQ(deleted.json["items"].size(), 2u);
  const auto left = Get(kConfigMaps);
  ASSERT_EQ(left.json["items"].size(), 1u);
  EXPECT_EQ(left.json["items"][0]["metadata"]["name"], "b");
}

TEST_F(ApiTest, AcceptsYaml) {
  const auto created = Call("POST", kConfigMaps, "metadata:\n  name: a\ndata:\n  k: 'yes'\n",
                            "Content-Type: application/yaml\r\n");
  EXPECT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["data"]["k"], "yes");
}

struct BadMetadata {
  Json metadata;
  std::string_view text;
};

TEST_F(ApiTest, RefusesBadMetadataAndSaysWhy) {
  const BadMetadata cases[] = {
      {{{"name", "Upper"}},
       "metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain"},
      {Json::object(), "metadata.name: Required value: name or generateName is required"},
      {{{"name", "a"}, {"labels", {{"-bad", "x"}}}}, "metadata.labels: Invalid value: \"-bad\""},
      {{{"name", "a"}, {"labels", {{"k", "bad value"}}}},
       "metadata.labels: Invalid value: \"bad value\""},
      {{{"name", "a"}, {"annotations", {{"k", std::string(300 * 1024, 'x')}}}},
       "metadata.annotations: Too long: may not be more than 262144 bytes"},
      {{{"name", "a"}, {"finalizers", {"bad finalizer"}}}, "metadata.finalizers: Invalid value"},
      {{{"name", "a"}, {"ownerReferences", {{{"kind", "Pod"}}}}},
       "metadata.ownerReferences[0].apiVersion: Invalid value: \"\": version must not be empty"},
  };
  for (const BadMetadata& bad : cases) {
    const auto refused = Post(kConfigMaps, {{"metadata", bad.metadata}});
    EXPECT_EQ(refused.code, 422) << bad.text;
    EXPECT_EQ(refused.reason(), "Invalid") << bad.text;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text));
    EXPECT_EQ(refused.json["details"]["kind"], "ConfigMap");
    EXPECT_FALSE(refused.json["details"]["causes"].empty());
  }
}

TEST_F(ApiTest, KeepsNoEmptyMetadataAndNoOtherCreationTime) {
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  const auto emptied = Patch(At(kConfigMaps, "a"), {{"metadata",
                                                     {{"labels", Json::object()},
                                                      {"annotations", Json::object()},
                                                      {"finalizers", Json::array()},
                                                      {"ownerReferences", Json::array()}}}});
  EXPECT_EQ(emptied.version(), created.version()) << emptied.body;
  Json object = created.json;
  object["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z";
  const auto updated = Put(At(kConfigMaps, "a"), object);
  EXPECT_EQ(updated.code, 200) << updated.body;
  EXPECT_EQ(updated.version(), created.version());
}

TEST_F(ApiTest, ADryRunMeetsWhatIsThere) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  EXPECT_EQ(Post(std::string(kConfigMaps) + "?dryRun=All", ConfigMap("a")).code, 409);
}

TEST_F(ApiTest, RefusesOptionsOfAnotherKindAndUnknownWaysToShow) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  EXPECT_EQ(Delete(At(kConfigMaps, "a"), {{"kind", "Pod"}, {"apiVersion", "v1"}}).code, 400);
  EXPECT_EQ(Call("GET", std::string(kConfigMaps) + "?includeObject=Some", "",
                 "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n")
                .code,
            400);
}

TEST_F(ApiTest, RefusesAPodWhoseAccountIsNotThere) {
  Json pod = PodNamed("p");
  pod["spec"]["serviceAccountName"] = "robot";
  const auto refused = Post(kPods, pod);
  EXPECT_EQ(refused.code, 403) << refused.body;
  EXPECT_THAT(refused.message(), testing::HasSubstr("serviceaccount \"robot\" not found"));
  ASSERT_EQ(
      Post("/api/v1/namespaces/default/serviceaccounts", {{"metadata", {{"name", "robot"}}}}).code,
      201);
  EXPECT_EQ(Post(kPods, pod).code, 201);
}

}  // namespace
}  // namespace berth::apiserver
