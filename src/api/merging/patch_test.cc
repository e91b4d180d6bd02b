#include "api/merging/patch.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::Json;
using base::StatusCode;
using nlohmann::literals::operator""_json;

TEST(JsonPatchTest, EveryOperation) {
  const Json document = R"({"a": {"b": [1, 2, 3]}, "x/y": "old", "m~n": 1})"_json;
  const Json patch = R"([
      {"op": "test", "path": "/a/b/0", "value": 1},
      {"op": "add", "path": "/a/b/1", "value": 9},
      {"op": "add", "path": "/a/b/-", "value": 4},
      {"op": "remove", "path": "/a/b/0"},
      {"op": "replace", "path": "/x~1y", "value": "new"},
      {"op": "move", "from": "/m~0n", "path": "/moved"},
      {"op": "copy", "from": "/a/b", "path": "/copy"}])"_json;
  EXPECT_EQ(ApplyJsonPatch(document, patch).value(),
            R"({"a": {"b": [9, 2, 3, 4]}, "x/y": "new", "moved": 1, "copy": [9, 2, 3, 4]})"_json);
}

TEST(JsonPatchTest, IsAsLenientAsKubernetes) {
  EXPECT_EQ(ApplyJsonPatch(Json::object(), R"([{"op": "replace", "path": "/a", "value": 1}])"_json)
                .value(),
            R"({"a": 1})"_json);
  EXPECT_TRUE(
      ApplyJsonPatch(Json::object(), R"([{"op": "test", "path": "/a/b", "value": null}])"_json)
          .ok());
}

TEST(JsonPatchTest, WhatDoesNotFitTheDocumentChangesNothingAndSaysSo) {
  for (const Json& patch : {R"([{"op": "test", "path": "/a", "value": 2}])"_json,
                            R"([{"op": "remove", "path": "/b"}])"_json,
                            R"([{"op": "add", "path": "/b/c", "value": 1}])"_json,
                            R"([{"op": "replace", "path": "/l/5", "value": 1}])"_json,
                            R"([{"op": "add", "path": "/l/3", "value": 1}])"_json,
                            R"([{"op": "add", "path": "/l/01", "value": 1}])"_json,
                            R"([{"op": "move", "from": "/q", "path": "/a"}])"_json}) {
    EXPECT_EQ(ApplyJsonPatch(R"({"a": 1, "l": [1, 2]})"_json, patch).status().code(),
              StatusCode::kFailedPrecondition)
        << patch;
  }
}

TEST(JsonPatchTest, RefusesMalformedPatches) {
  for (const Json& patch :
       {R"({})"_json, R"([1])"_json, R"([{"op": "add", "path": "/a"}])"_json,
        R"([{"op": "grow", "path": "/a"}])"_json, R"([{"op": "add", "value": 1}])"_json,
        R"([{"op": "add", "path": "a", "value": 1}])"_json,
        R"([{"op": "remove", "path": "/a~2"}])"_json, R"([{"op": "remove", "path": ""}])"_json,
        R"([{"op": "move", "from": "/a", "path": "/a/b"}])"_json}) {
    EXPECT_EQ(ApplyJsonPatch(R"({"a": {}})"_json, patch).status().code(),
              StatusCode::kInvalidArgument)
        << patch;
  }
}

TEST(JsonPatchTest, IsBoundedInOperationsAndCopies) {
  Json many = Json::array();
  for (int i = 0; i < 10001; ++i)
    many.push_back({{"op", "test"}, {"path", "/a"}, {"value", nullptr}});
  EXPECT_EQ(ApplyJsonPatch(Json::object(), many).status().code(), StatusCode::kResourceExhausted);

  Json bomb = Json::array();
  for (int i = 0; i < 30; ++i) bomb.push_back({{"op", "copy"}, {"from", "/a"}, {"path", "/a/-"}});
  EXPECT_EQ(ApplyJsonPatch(R"({"a": ["0123456789"]})"_json, bomb).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(JsonPatchTest, MovesCannotNestADocumentWithoutEnd) {
  // Each round moves the document that was made before one level deeper.
  const Json round = R"([
      {"op": "add", "path": "/b", "value": {}},
      {"op": "move", "from": "/a", "path": "/b/a"},
      {"op": "move", "from": "/b", "path": "/a"}])"_json;
  Json patch = Json::array();
  for (int i = 0; i < 3000; ++i) patch.insert(patch.end(), round.begin(), round.end());
  EXPECT_EQ(ApplyJsonPatch(R"({"a": 1})"_json, patch).status().code(),
            StatusCode::kResourceExhausted);
  patch.erase(patch.begin() + 60, patch.end());
  EXPECT_TRUE(ApplyJsonPatch(R"({"a": 1})"_json, patch).ok()) << "objects may nest 64 levels deep";
  EXPECT_EQ(
      ApplyJsonPatch(Json::object(),
                     Json::array({{{"op", "add"}, {"path", std::string(1000, '/')}, {"value", 1}}}))
          .status()
          .code(),
      StatusCode::kResourceExhausted);
}

TEST(JsonPatchTest, MovesAndShiftsAreBoundedInWork) {
  Json document = {{"a", Json::array()}};
  for (int i = 0; i < 100'000; ++i) document["a"].push_back(i);
  Json moves = Json::array();
  Json shifts = Json::array();
  for (int i = 0; i < 1000; ++i) {
    moves.push_back({{"op", "move"}, {"from", "/a"}, {"path", "/b"}});
    moves.push_back({{"op", "move"}, {"from", "/b"}, {"path", "/a"}});
    shifts.push_back({{"op", "add"}, {"path", "/a/0"}, {"value", 1}});
    shifts.push_back({{"op", "remove"}, {"path", "/a/0"}});
  }
  for (Json* patch : {&moves, &shifts}) {
    EXPECT_EQ(ApplyJsonPatch(document, *patch).status().code(), StatusCode::kResourceExhausted);
    patch->erase(patch->begin() + 20, patch->end());
    EXPECT_EQ(ApplyJsonPatch(document, *patch).value(), document);
  }
}

// Each copy doubles the depth, so that a short patch makes a document that no stack can visit.
TEST(JsonPatchTest, NestsNoDeeperThanHundredLevels) {
  Json bomb = R"([{"op": "add", "path": "/x", "value": [1]}])"_json;
  std::string bottom = "/x/0";
  for (int i = 0; i < 10; ++i) {
    bomb.push_back({{"op", "copy"}, {"from", "/x"}, {"path", bottom}});
    bottom += bottom.substr(2);
  }
  EXPECT_EQ(ApplyJsonPatch(Json::object(), bomb).status().code(), StatusCode::kResourceExhausted);

  const auto nested = [](int levels) {
    Json value = 1;
    for (int i = 0; i < levels; ++i) value = Json::array({std::move(value)});
    return value;
  };
  // The value of the member "a" is at the second level of the document.
  const Json document = {{"a", {{"b", 1}}}, {"deep", nested(60)}};
  for (const char* op : {"add", "replace"}) {
    const auto patch = [&](const char* at, int levels) {
      return Json::array({{{"op", op}, {"path", at}, {"value", nested(levels)}}});
    };
    EXPECT_TRUE(ApplyJsonPatch(document, patch("/a/b", 98)).ok()) << op;
    EXPECT_EQ(ApplyJsonPatch(document, patch("/a/b", 99)).status().code(),
              StatusCode::kResourceExhausted)
        << op;
    EXPECT_EQ(ApplyJsonPatch(document, patch("", 101)).status().code(),
              StatusCode::kResourceExhausted)
        << op;
  }
  bottom = "/deep";
  for (int i = 0; i < 60; ++i) bottom += "/0";
  const auto patch = [&](const char* op) {
    return Json::array({{{"op", "add"}, {"path", "/other"}, {"value", nested(60)}},
                        {{"op", op}, {"from", "/other"}, {"path", bottom}}});
  };
  for (const char* op : {"copy", "move"}) {
    EXPECT_EQ(ApplyJsonPatch(document, patch(op)).status().code(), StatusCode::kResourceExhausted)
        << op;
  }
}

TEST(MergePatchTest, MergesObjectsAndRemovesNulls) {
  EXPECT_EQ(ApplyMergePatch(
                R"({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x"})"_json,
                R"({"a": {"b": null, "d": {"e": 1, "f": null}}, "l": [3], "s": {"t": 1}})"_json)
                .value(),
            R"({"a": {"c": 2, "d": {"e": 1}}, "l": [3], "s": {"t": 1}})"_json);
  EXPECT_EQ(ApplyMergePatch(Json::object(), R"([])"_json).status().code(),
            StatusCode::kInvalidArgument);
}

Json Strategic(const KindInfo& kind, const Json& document, const Json& patch) {
  auto result = ApplyStrategicMergePatch(kind, document, patch);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Json();
}

TEST(StrategicMergeTest, ListsMergeByTheirKeys) {
  EXPECT_EQ(
      Strategic(
          kinds::kPod,
          R"({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
                                                  {"name": "b", "image": "2"}]}})"_json,
          R"({"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]},
                                                  {"name": "c", "image": "3"}]}})"_json),
      R"({"spec": {"containers": [
                {"name": "a", "image": "1", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
                {"name": "c", "image": "3"}, {"name": "b", "image": "2"}]}})"_json);
  EXPECT_EQ(Strategic(kinds::kNode,
                      R"({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})"_json,
                      R"({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})"_json),
            R"({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})"_json);
  EXPECT_EQ(
      Strategic(
          kinds::kPod,
          R"({"spec": {"initContainers": [{"name": "a", "ports": [{"containerPort": 1, "name": "p"}]}]}})"_json,
          R"({"spec": {"initContainers": [{"name": "a", "ports": [{"containerPort": 1, "name": "q"}]}]}})"_json),
      R"({"spec": {"initContainers": [{"name": "a", "ports": [{"containerPort": 1, "name": "q"}]}]}})"_json);
}

TEST(StrategicMergeTest, ListsWithinItemsMergeToo) {
  EXPECT_EQ(Strategic(kinds::kPod,
                      R"({"spec": {"initContainers": [
                    {"name": "a", "env": [{"name": "X", "value": "1"}], "args": ["x"]}]}})"_json,
                      R"({"spec": {"initContainers": [
                    {"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["y"]}]}})"_json),
            R"({"spec": {"initContainers": [{"name": "a", "args": ["y"], "env": [
          {"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]}})"_json);
  // The same holds for a pod's spec within another kind.
  EXPECT_EQ(
      Strategic(kinds::kDaemonSet,
                R"({"spec": {"template": {"spec": {"volumes": [{"name": "a"}]}}}})"_json,
                R"({"spec": {"template": {"spec": {"volumes": [{"name": "b"}]}}}})"_json),
      R"({"spec": {"template": {"spec": {"volumes": [{"name": "b"}, {"name": "a"}]}}}})"_json);
}

TEST(StrategicMergeTest, OtherListsAreReplaced) {
  EXPECT_EQ(Strategic(kinds::kNode, R"({"spec": {"taints": [{"key": "a"}]}})"_json,
                      R"({"spec": {"taints": [{"key": "b"}]}})"_json),
            R"({"spec": {"taints": [{"key": "b"}]}})"_json);
  // The same field name merges in one kind and not in another.
  EXPECT_EQ(
      Strategic(kinds::kPersistentVolume, R"({"status": {"conditions": [{"type": "a"}]}})"_json,
                R"({"status": {"conditions": [{"type": "b"}]}})"_json),
      R"({"status": {"conditions": [{"type": "b"}]}})"_json);
}

TEST(StrategicMergeTest, FinalizersAreASet) {
  const Json document = R"({"metadata": {"finalizers": ["a", "b"]}})"_json;
  EXPECT_EQ(Strategic(kinds::kPersistentVolume, document,
                      R"({"metadata": {"finalizers": ["b", "c"]}})"_json),
            R"({"metadata": {"finalizers": ["a", "b", "c"]}})"_json);
  EXPECT_EQ(Strategic(kinds::kPersistentVolume, document,
                      R"({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"],
                                       "$setElementOrder/finalizers": ["b"]}})"_json),
            R"({"metadata": {"finalizers": ["b"]}})"_json);
}

// Comparing each new item with all others would take longer than the test may.
TEST(StrategicMergeTest, AMergeOfManyItemsTakesOneLookForEach) {
  constexpr int kItems = 300000;
  Json finalizers = Json::array();
  for (int i = 0; i < kItems; ++i) finalizers.push_back(fmt::format("{:06}", i));
  Json merged = Strategic(kinds::kEvent, R"({"metadata": {"finalizers": ["000001"]}})"_json,
                          {{"metadata", {{"finalizers", finalizers}}}});
  ASSERT_EQ(merged["metadata"]["finalizers"].size(), size_t{kItems});
  EXPECT_EQ(merged["metadata"]["finalizers"][0], "000000");
  EXPECT_EQ(merged["metadata"]["finalizers"][1], "000001");

  std::reverse(finalizers.begin(), finalizers.end());
  finalizers.erase(0);
  merged = Strategic(kinds::kEvent, std::move(merged),
                     {{"metadata", {{"$deleteFromPrimitiveList/finalizers", finalizers}}}});
  EXPECT_EQ(merged, R"({"metadata": {"finalizers": ["299999"]}})"_json);

  Json labels = Json::object();
  Json kept = Json::array();
  for (int i = 0; i < kItems; ++i) {
    labels[fmt::format("{:06}", i)] = "";
    kept.push_back(fmt::format("{:06}", i));
  }
  kept.erase(0);
  merged = Strategic(kinds::kEvent, {{"metadata", {{"labels", std::move(labels)}}}},
                     {{"metadata", {{"labels", {{"$retainKeys", std::move(kept)}}}}}});
  EXPECT_EQ(merged["metadata"]["labels"].size(), size_t{kItems - 1});

  Json volumes = Json::array();
  Json deleted = Json::array();
  for (int i = 0; i < kItems / 2; ++i) {
    volumes.push_back({{"name", fmt::format("{:06}", i)}});
    deleted.push_back({{"name", fmt::format("{:06}", i + 1)}, {"$patch", "delete"}});
  }
  merged = Strategic(kinds::kPod, {{"spec", {{"volumes", std::move(volumes)}}}},
                     {{"spec", {{"volumes", std::move(deleted)}}}});
  EXPECT_EQ(merged, R"({"spec": {"volumes": [{"name": "000000"}]}})"_json);
}

TEST(StrategicMergeTest, DeletesBeforeItMerges) {
  const Json document = R"({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}})"_json;
  const Json wanted = R"({"spec": {"volumes": [{"name": "a", "hostPath": {}}]}})"_json;
  EXPECT_EQ(Strategic(kinds::kPod, document,
                      R"({"spec": {"volumes": [{"$patch": "delete", "name": "a"},
                                               {"name": "a", "hostPath": {}}]}})"_json),
            wanted);
  EXPECT_EQ(Strategic(kinds::kPod, document,
                      R"({"spec": {"volumes": [{"name": "a", "hostPath": {}},
                                               {"$patch": "delete", "name": "a"}]}})"_json),
            wanted);
}

TEST(StrategicMergeTest, PatchDirectives) {
  const Json document =
      R"({"spec": {"volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}})"_json;
  EXPECT_EQ(Strategic(kinds::kPod, document,
                      R"({"spec": {"volumes": [{"$patch": "delete", "name": "b"}]}})"_json),
            R"({"spec": {"volumes": [{"name": "a"}, {"name": "c"}]}})"_json);
  EXPECT_EQ(Strategic(kinds::kPod, document,
                      R"({"spec": {"volumes": [{"$patch": "replace"}, {"name": "z"}]}})"_json),
            R"({"spec": {"volumes": [{"name": "z"}]}})"_json);
  EXPECT_EQ(Strategic(kinds::kPod, R"({"metadata": {"labels": {"a": "1"}, "name": "n"}})"_json,
                      R"({"metadata": {"labels": {"$patch": "replace", "b": "2"}}})"_json),
            R"({"metadata": {"labels": {"b": "2"}, "name": "n"}})"_json);
  EXPECT_EQ(Strategic(kinds::kPod, R"({"metadata": {"labels": {"a": "1"}, "name": "n"}})"_json,
                      R"({"metadata": {"labels": {"$patch": "delete"}}})"_json),
            R"({"metadata": {"name": "n"}})"_json);
  // The merge key of ports is containerPort: one for TCP and one for UDP have the same.
  EXPECT_EQ(Strategic(kinds::kPod,
                      R"({"spec": {"containers": [{"name": "a", "ports": [
                              {"containerPort": 53, "protocol": "TCP"}, {"containerPort": 80},
                              {"containerPort": 53, "protocol": "UDP"}]}]}})"_json,
                      R"({"spec": {"containers": [{"name": "a", "ports": [
                              {"containerPort": 53, "$patch": "delete"}]}]}})"_json),
            R"({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}})"_json);
}

TEST(StrategicMergeTest, RetainKeysDropsTheOtherMembers) {
  EXPECT_EQ(Strategic(kinds::kPod, R"({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}})"_json,
                      R"({"spec": {"volumes": [{"name": "a", "$retainKeys": ["name", "hostPath"],
                                                "hostPath": {"path": "/x"}}]}})"_json),
            R"({"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/x"}}]}})"_json);
}

TEST(StrategicMergeTest, ElementOrderKeepsWhatItsAuthorDidNotKnowInPlace) {
  const Json document =
      R"({"spec": {"containers": [{"name": "injected"}, {"name": "a"}, {"name": "b"}]}})"_json;
  EXPECT_EQ(
      Strategic(
          kinds::kPod, document,
          R"({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
                             "containers": [{"name": "c"}]}})"_json),
      R"({"spec": {"containers": [{"name": "injected"}, {"name": "b"}, {"name": "a"}, {"name": "c"}]}})"_json);
}

// Each letter is a container.
std::string OrderAfter(std::string_view before, std::string_view patch, std::string_view order) {
  const auto items = [](std::string_view names) {
    Json list = Json::array();
    for (const char name : names) list.push_back({{"name", std::string(1, name)}});
    return list;
  };
  Json spec = Json::object();
  if (!patch.empty()) spec["containers"] = items(patch);
  if (!order.empty()) spec["$setElementOrder/containers"] = items(order);
  const Json merged =
      Strategic(kinds::kPod, {{"spec", {{"containers", items(before)}}}}, {{"spec", spec}});
  std::string names;
  for (const Json& item : merged["spec"]["containers"]) names += item["name"].get<std::string>();
  return names;
}

TEST(StrategicMergeTest, MergedListsAreSortedAsKubernetesSortsThem) {
  EXPECT_EQ(OrderAfter("abc", "xy", ""), "xyabc");
  EXPECT_EQ(OrderAfter("abcd", "da", ""), "bcda");
  EXPECT_EQ(OrderAfter("abc", "cxa", ""), "bcxa");
  EXPECT_EQ(OrderAfter("abc", "", "cb"), "acb");
  EXPECT_EQ(OrderAfter("abc", "x", "xc"), "xabc");
  EXPECT_EQ(OrderAfter("", "xy", "yx"), "yx");
}

TEST(StrategicMergeTest, ADirectiveWithNothingToApplyToLeavesItsPartOut) {
  EXPECT_EQ(Strategic(kinds::kPod, R"({"spec": {"hostNetwork": true}})"_json,
                      R"({"spec": {"securityContext": {"$patch": "replace", "fsGroup": 5},
                                   "volumes": [{"name": "a", "$patch": "replace"},
                                               {"name": "b"}]}})"_json),
            R"({"spec": {"hostNetwork": true, "volumes": [{"name": "b"}]}})"_json);
}

TEST(StrategicMergeTest, DirectivesNeverReachTheObject) {
  EXPECT_EQ(Strategic(kinds::kPod, Json::object(),
                      R"({"spec": {"$setElementOrder/volumes": [{"name": "a"}],
                                   "volumes": [{"name": "a", "$retainKeys": ["name"], "x": null},
                                               {"name": "b", "$patch": "delete"}]}})"_json),
            R"({"spec": {"volumes": [{"name": "a"}]}})"_json);
}

TEST(StrategicMergeTest, RefusesWhatItCannotApply) {
  const auto refused = [](std::string_view patch) {
    return ApplyStrategicMergePatch(kinds::kPod,
                                    R"({"spec": {"containers": [], "securityContext": {}}})"_json,
                                    Json::parse(patch))
        .status();
  };
  const std::pair<std::string_view, std::string_view> unknown[] = {
      {R"({"spec": {"containers": [{"image": "x", "args": ["a", null, 5, {}]}]}})",
       "map: map[args:[a <nil> 5 map[]] image:x] does not contain declared merge key: name"},
      {R"({"spec": {"containers": [{"name": "x", "$patch": "merge"}]}})",
       "merging lists cannot yet be specified in the patch"},
      {R"({"spec": {"containers": [{"name": "x", "$patch": "explode"}]}})",
       "unknown patch type: explode in map: map[$patch:explode name:x]"},
      {R"({"spec": {"securityContext": {"$patch": "merge", "fsGroup": 6}}})",
       "unknown patch type: merge in map: map[$patch:merge fsGroup:6]"},
      {R"({"$patch": "explode"})", "unknown patch type: explode in map: map[$patch:explode]"}};
  for (const auto& [patch, words] : unknown) {
    EXPECT_EQ(refused(patch).code(), StatusCode::kUnknown) << patch;
    EXPECT_EQ(base::Message(refused(patch)), words);
  }
  const Json many = {{"$patch", "explode"}, {"text", std::string(100000, 'x')}};
  EXPECT_LT(base::Message(refused(many.dump())).size(), size_t{2000});
  EXPECT_EQ(refused(R"({"spec": {"$retainKeys": ["a"], "containers": []}})").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      ApplyStrategicMergePatch(kinds::kHostMount, Json::object(), Json::object()).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_FALSE(SupportsStrategicMerge(kinds::kHostMount));
  EXPECT_TRUE(SupportsStrategicMerge(kinds::kCsiNode));
}

}  // namespace
}  // namespace berth::api
