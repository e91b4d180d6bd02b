// Server-side apply and managedFields, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using nlohmann::literals::operator""_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

class ApplyTest : public ApiTest {
 protected:
  // `query` follows the fieldManager.
  TestResponse Apply(std::string_view target, const Json& config, std::string_view manager = "me",
                     std::string_view query = "") {
    return Call("PATCH", fmt::format("{}?fieldManager={}{}", target, manager, query),
                base::json::Dump(config), "Content-Type: application/apply-patch+yaml\r\n");
  }
  static Json Map(const Json& data, std::string_view name = "a") {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", std::string(name)}}},
            {"data", data}};
  }
  // "manager operation": fields, with the subresource behind the operation if there is one.
  static std::map<std::string, Json> Managers(const Json& object) {
    std::map<std::string, Json> out;
    for (const Json& entry : base::json::Array(object, {"metadata", "managedFields"})) {
      EXPECT_EQ(entry["fieldsType"], "FieldsV1");
      std::string key = fmt::format("{} {}", entry["manager"].get<std::string>(),
                                    entry["operation"].get<std::string>());
      if (entry.contains("subresource")) key += " " + entry["subresource"].get<std::string>();
      out[key] = entry["fieldsV1"];
    }
    return out;
  }
  std::map<std::string, Json> ManagersOf(std::string_view target) {
    return Managers(Get(target).json);
  }
};

TEST_F(ApplyTest, CreatesMergesAndRemoves) {
  const auto created = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}, {"y", "2"}}));
  EXPECT_EQ(created.code, 201) << created.body;
  EXPECT_THAT(Managers(created.json),
              ElementsAre(std::pair("me Apply", R"({"f:data": {"f:x": {}, "f:y": {}}})"_json)));
  EXPECT_EQ(created.json["metadata"]["managedFields"][0]["apiVersion"], "v1");
  EXPECT_EQ(Patch(At(kConfigMaps, "a"), {{"data", {{"z", "3"}}}}).code, 200);
  const auto merged = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}));
  EXPECT_EQ(merged.code, 200) << merged.body;
  EXPECT_EQ(merged.json["data"], R"({"x": "1", "z": "3"})"_json);
}

TEST_F(ApplyTest, YamlWorksToo) {
  const auto created =
      Call("PATCH", At(kConfigMaps, "a") + "?fieldManager=me",
           "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"1\"\n",
           "Content-Type: application/apply-patch+yaml\r\n");
  EXPECT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["data"]["x"], "1");
}

TEST_F(ApplyTest, WhatChangesNothingIsNotWritten) {
  const auto first = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}));
  clock_.Advance(std::chrono::minutes(1));
  const auto again = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}));
  EXPECT_EQ(again.code, 200);
  EXPECT_EQ(again.json, first.json);
  // Another manager of the same values is a change, though not of the data.
  const auto shared = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}), "you");
  EXPECT_NE(shared.version(), first.version());
  EXPECT_EQ(Managers(shared.json).size(), 2u);
}

TEST_F(ApplyTest, ConflictsAreNamedAndForced) {
  ASSERT_EQ(Call("POST", std::string(kConfigMaps) + "?fieldManager=editor",
                 base::json::Dump(Map({{"x", "1"}, {"y", "1"}})))
                .code,
            201);
  const auto one = Apply(At(kConfigMaps, "a"), Map({{"x", "2"}}));
  EXPECT_EQ(one.code, 409);
  EXPECT_EQ(one.reason(), "Conflict");
  EXPECT_EQ(one.message(),
            R"(Apply failed with 1 conflict: conflict with "editor" using v1: .data.x)");
  EXPECT_EQ(one.json["details"]["causes"],
            R"([{"reason": "FieldManagerConflict", "message": "conflict with \"editor\" using v1",
                 "field": ".data.x"}])"_json);
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), Map({{"x", "2"}, {"y", "2"}})).message(),
            "Apply failed with 2 conflicts: conflicts with \"editor\" using v1:\n- .data.x\n"
            "- .data.y");
  const auto forced = Apply(At(kConfigMaps, "a"), Map({{"x", "2"}}), "me", "&force=true");
  EXPECT_EQ(forced.code, 200) << forced.body;
  EXPECT_EQ(forced.json["data"], R"({"x": "2", "y": "1"})"_json);
  EXPECT_EQ(Managers(forced.json)["editor Update"], R"({"f:data": {".": {}, "f:y": {}}})"_json);
}

TEST_F(ApplyTest, ADryRunAnswersAsIf) {
  const auto dry = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}), "me", "&dryRun=All");
  EXPECT_EQ(dry.code, 201) << dry.body;
  EXPECT_EQ(Managers(dry.json).count("me Apply"), 1u);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(ApplyTest, ConditionsAreMetOrRefused) {
  Json config = Map({{"x", "1"}});
  config["metadata"]["resourceVersion"] = "1";
  // Nothing is there whose version could differ.
  EXPECT_EQ(Apply(At(kConfigMaps, "b"), config).code, 400);
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), config).code, 201);
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), config).code, 409);
  ASSERT_EQ(Delete(At(kConfigMaps, "a")).code, 200);
  config["metadata"].erase("resourceVersion");
  config["metadata"]["uid"] = "one";
  const auto missing = Apply(At(kConfigMaps, "a"), config);
  EXPECT_EQ(missing.code, 409);
  EXPECT_THAT(missing.message(), HasSubstr("no existing object was found"));
  config["metadata"].erase("uid");
  const std::string version = Apply(At(kConfigMaps, "a"), config).version();
  config["data"]["x"] = "2";
  config["metadata"]["resourceVersion"] = version;
  const auto met = Apply(At(kConfigMaps, "a"), config);
  EXPECT_EQ(met.code, 200) << met.body;
  config["data"]["x"] = "3";
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), config).code, 409);
  config["metadata"].erase("resourceVersion");
  config["metadata"]["uid"] = "another";
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), config).code, 409);
}

TEST_F(ApplyTest, BadAppliesAreRefused) {
  const std::string target = At(kConfigMaps, "a");
  const auto nameless = Call("PATCH", target, base::json::Dump(Map({})),
                             "Content-Type: application/apply-patch+yaml\r\n");
  EXPECT_EQ(nameless.code, 422);
  EXPECT_EQ(
      nameless.message(),
      R"(PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch)");
  EXPECT_EQ(Apply(target, Map({}), std::string(129, 'm')).code, 422);
  EXPECT_EQ(Apply(target, Map({}), std::string(128, 'm')).code, 201);
  EXPECT_THAT(Apply(target, Map({}), "a%07b").message(), HasSubstr("invalid character U+0007"));
  EXPECT_EQ(Apply(target, Map({{"x", "1"}}, "b")).code, 400);
  Json config = Map({{"x", "1"}});
  config["kind"] = "Secret";
  EXPECT_EQ(Apply(target, config).message(), "invalid object type: /v1, Kind=Secret");
  config = Map({{"x", "1"}});
  config["metadata"]["managedFields"] = Json::array();
  EXPECT_EQ(Apply(target, config).message(), "metadata.managedFields must be nil");
  EXPECT_EQ(Apply(target, Json(7)).code, 400);
  EXPECT_EQ(Apply(target, Map({{"x", 1}})).code, 400);
  config = Map({{"x", "1"}});
  config["colour"] = "red";
  const auto unknown = Apply(target, config);
  EXPECT_EQ(unknown.code, 500);
  EXPECT_EQ(unknown.message(),
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .colour: field "
            "not declared in schema");
  EXPECT_EQ(Call("PATCH", target + "?fieldManager=me", "a: [",
                 "Content-Type: application/apply-patch+yaml\r\n")
                .code,
            400);
  EXPECT_EQ(Apply("/api/v1/namespaces/absent/configmaps/a", Map({})).code, 404);
  EXPECT_EQ(Apply(At(kPods, "p") + "/status", PodNamed("p")).code, 400);  // no kind
}

TEST_F(ApplyTest, ForceIsForAppliesAlone) {
  ASSERT_EQ(Apply(At(kConfigMaps, "a"), Map({{"x", "1"}})).code, 201);
  const auto forced = Patch(At(kConfigMaps, "a") + "?force=true", {{"data", {{"x", "2"}}}});
  EXPECT_EQ(forced.code, 422);
  EXPECT_THAT(forced.message(), HasSubstr("may not be specified for non-apply patch"));
}

TEST_F(ApplyTest, PlainWritersAreNamedByQueryOrProgram) {
  const std::string type = "Content-Type: application/json\r\n";
  const auto by_agent = Call("POST", kConfigMaps, base::json::Dump(Map({{"x", "1"}}, "a")),
                             type + "User-Agent: kubectl/v1.20.2 (linux/amd64)\r\n");
  EXPECT_EQ(Managers(by_agent.json).count("kubectl Update"), 1u) << by_agent.body;
  const auto unknown = Call("POST", kConfigMaps, base::json::Dump(Map({{"x", "1"}}, "b")), type);
  EXPECT_EQ(Managers(unknown.json).count("unknown Update"), 1u) << unknown.body;
  const auto named =
      Call("PUT", At(kConfigMaps, "a") + "?fieldManager=editor",
           base::json::Dump(Map({{"x", "2"}})), type + "User-Agent: kubectl/v1.20.2\r\n");
  EXPECT_EQ(Managers(named.json),
            (std::map<std::string, Json>{{"kubectl Update", R"({"f:data": {}})"_json},
                                         {"editor Update", R"({"f:data": {"f:x": {}}})"_json}}));
  EXPECT_EQ(Call("PUT", At(kConfigMaps, "a") + "?fieldManager=" + std::string(129, 'm'),
                 base::json::Dump(Map({})), type)
                .code,
            422);
  EXPECT_EQ(
      Call("POST", std::string(kConfigMaps) + "?fieldManager=a%01", base::json::Dump(Map({}, "c")),
           type)
          .message(),
      R"(CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\u0001": invalid character U+0001 (at position 1))");
}

TEST_F(ApplyTest, DefaultsAreTheCreatorsButWhatAdmissionAddsIsNobodys) {
  const auto claim = Post(kClaims, ClaimNamed("c"));
  ASSERT_EQ(claim.code, 201) << claim.body;
  EXPECT_EQ(claim.json["metadata"]["finalizers"], R"(["kubernetes.io/pvc-protection"])"_json);
  const Json fields = Managers(claim.json)["unknown Update"];
  EXPECT_FALSE(fields.contains("f:metadata")) << fields;
  EXPECT_FALSE(fields.contains("f:status")) << fields;
  EXPECT_TRUE(fields["f:spec"].contains("f:volumeMode")) << fields;
}

TEST_F(ApplyTest, TheStatusIsManagedApart) {
  ASSERT_EQ(Post(kPods, PodNamed("p")).code, 201);
  const auto status = Call("PATCH", At(kPods, "p") + "/status?fieldManager=kubelet",
                           R"({"status": {"phase": "Running"}, "spec": {"nodeName": "x"}})",
                           "Content-Type: application/merge-patch+json\r\n");
  ASSERT_EQ(status.code, 200) << status.body;
  auto managers = Managers(status.json);
  EXPECT_EQ(managers["kubelet Update status"], R"({"f:status": {"f:phase": {}}})"_json);
  EXPECT_TRUE(managers["unknown Update"]["f:spec"].contains("f:containers"));
  // A write of the rest keeps both.
  EXPECT_EQ(Managers(Patch(At(kPods, "p"), {{"metadata", {{"labels", {{"a", "b"}}}}}}).json).size(),
            2u);
  const Json config = {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", {{"name", "p"}}},
                       {"spec", {{"nodeName", "elsewhere"}}},
                       {"status", {{"phase", "Failed"}, {"message", "m"}}}};
  EXPECT_EQ(
      Apply(At(kPods, "p") + "/status", config).message(),
      R"(Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: .status.phase)");
  const auto applied = Apply(At(kPods, "p") + "/status", config, "me", "&force=true");
  ASSERT_EQ(applied.code, 200) << applied.body;
  EXPECT_EQ(applied.json["status"]["phase"], "Failed");
  EXPECT_FALSE(applied.json["spec"].contains("nodeName"));
  managers = Managers(applied.json);
  EXPECT_EQ(managers["me Apply status"], R"({"f:status": {"f:message": {}, "f:phase": {}}})"_json);
  EXPECT_EQ(managers.count("kubelet Update status"), 0u);
  EXPECT_EQ(Apply(At(kPods, "q") + "/status", config).code, 400);
  Json missing = config;
  missing["metadata"]["name"] = "q";
  EXPECT_EQ(Apply(At(kPods, "q") + "/status", missing).code, 404);
}

TEST_F(ApplyTest, PodsMergeByContainerAndPort) {
  Json pod = PodNamed("p");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["spec"]["containers"][0]["ports"] = R"([{"containerPort": 80}])"_json;
  const auto created = Apply(At(kPods, "p"), pod);
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(Managers(created.json)["me Apply"], R"({"f:spec": {"f:containers":
      {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {},
        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}})"_json);
  const Json labels = {{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", {{"name", "p"}, {"labels", {{"team", "x"}}}}}};
  const auto labelled = Apply(At(kPods, "p"), labels, "labeller");
  ASSERT_EQ(labelled.code, 200) << labelled.body;
  EXPECT_EQ(labelled.json["spec"], created.json["spec"]);
  pod["spec"]["containers"][0]["image"] = "busybox:1.37";
  EXPECT_EQ(Apply(At(kPods, "p"), pod).json["metadata"]["labels"]["team"], "x");
}

TEST_F(ApplyTest, TakesOverFromKubectlApply) {
  Json object = Map({{"x", "1"}, {"gone", "1"}});
  object["metadata"]["annotations"][kLastApplied] = base::json::Dump(object) + "\n";
  ASSERT_EQ(Call("POST", std::string(kConfigMaps) + "?fieldManager=kubectl-client-side-apply",
                 base::json::Dump(object))
                .code,
            201);
  EXPECT_EQ(Apply(At(kConfigMaps, "a"), Map({{"x", "2"}})).code, 409);
  const auto applied = Apply(At(kConfigMaps, "a"), Map({{"x", "2"}}), "kubectl");
  ASSERT_EQ(applied.code, 200) << applied.body;
  EXPECT_EQ(applied.json["data"]["x"], "2");
  EXPECT_EQ(
      base::json::Parse(applied.json["metadata"]["annotations"][kLastApplied].get<std::string>())
          .value()["data"],
      R"({"x": "2"})"_json);
}

TEST_F(ApplyTest, ClientsMayEditTheManagersThemselves) {
  const auto created = Apply(At(kConfigMaps, "a"), Map({{"x", "1"}}));
  // As newer kubectls turn a client-side apply into a server-side one: by a JSON patch.
  Json managed = created.json["metadata"]["managedFields"];
  managed[0]["manager"] = "other";
  const auto edited = Patch(
      At(kConfigMaps, "a"),
      Json::array({{{"op", "replace"}, {"path", "/metadata/managedFields"}, {"value", managed}}}),
      "json-patch+json");
  EXPECT_EQ(edited.code, 200);
  EXPECT_EQ(Managers(edited.json).count("other Apply"), 1u) << edited.body;
  // Nonsense and absence leave them as they are, [{}] forgets them all.
  Json object = edited.json;
  object["metadata"]["managedFields"] = R"([{"manager": "x", "operation": "Think"}])"_json;
  EXPECT_EQ(Managers(Put(At(kConfigMaps, "a"), object).json).count("other Apply"), 1u);
  object["metadata"].erase("managedFields");
  EXPECT_EQ(Managers(Put(At(kConfigMaps, "a"), object).json).count("other Apply"), 1u);
  const auto reset =
      Patch(At(kConfigMaps, "a"), {{"metadata", {{"managedFields", R"([{}])"_json}}}});
  EXPECT_FALSE(reset.json["metadata"].contains("managedFields")) << reset.body;
  // Without managers it goes on without, until it is applied.
  EXPECT_THAT(Managers(Patch(At(kConfigMaps, "a"), {{"data", {{"x", "5"}}}}).json), IsEmpty());
  EXPECT_EQ(Managers(Apply(At(kConfigMaps, "a"), Map({{"y", "1"}})).json),
            (std::map<std::string, Json>{
                {"before-first-apply Update", R"({"f:data": {".": {}, "f:x": {}}})"_json},
                {"me Apply", R"({"f:data": {"f:y": {}}})"_json}}));
}

TEST_F(ApplyTest, AWriteOfTheSameKeepsTheTime) {
  const auto created = Post(kConfigMaps, ConfigMap("a", {{"x", "1"}}));
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(Put(At(kConfigMaps, "a"), ConfigMap("a", {{"x", "1"}})).json, created.json);
  const auto changed = Put(At(kConfigMaps, "a"), ConfigMap("a", {{"x", "2"}}));
  EXPECT_NE(changed.json["metadata"]["managedFields"][0]["time"],
            created.json["metadata"]["managedFields"][0]["time"]);
}

TEST_F(ApplyTest, NullsUnsetWhatTheyName) {
  ASSERT_EQ(Apply(At(kConfigMaps, "a"), Map({{"x", "1"}, {"y", "1"}})).code, 201);
  Json config = Map({{"x", nullptr}, {"y", "1"}});
  const auto applied = Apply(At(kConfigMaps, "a"), config);
  EXPECT_EQ(applied.code, 200) << applied.body;
  EXPECT_EQ(applied.json["data"], R"({"y": "1"})"_json);
}

}  // namespace
}  // namespace berth::apiserver
