#include "api/merging/managed_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/merging/typed_fields.h"
#include "api/schema/test_schema.h"

namespace berth::api {
namespace {

using base::Json;
using nlohmann::literals::operator""_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A kind with one of each type of field.
const Schema* Things() {
  static SchemaArena arena;
  static const Schema* schema = TestSchema(arena, R"({
      "apiVersion": "s", "kind": "s",
      "metadata": {"name": "s", "namespace": "s", "uid": "s", "resourceVersion": "s",
                   "labels": {"$map": "s"}, "annotations": {"$map": "s"},
                   "finalizers": {"$set": "s"}},
      "spec": {
        "size": "i", "mode": "s", "class": "s",
        "nested": {"a": "s", "b": "s", "deep": {"x": "s"}},
        "whole": {"$atomic": {"a": "s", "b": "s"}},
        "wholeMap": {"$atomic": {"$map": "s"}},
        "words": {"$list": "s"},
        "set": {"$set": "s"}, "numbers": {"$set": "i"},
        "containers!": {"$keys": ["name"], "$items": {"name": "s", "image": "s", "tty": "b",
          "ports": {"$keys": ["port", "protocol"], "$items": {"port": "i", "name": "s",
                    "protocol": {"$default": "TCP", "$type": "s"}}}}},
        "maps": {"$map": {"a": "s", "b": "s"}},
        "free": "any"
      },
      "status": {"phase": "s", "conditions": {"$keys": ["type"], "$items": {"type": "s", "status": "s"}}}
  })"_json);
  return schema;
}

// An object that several clients write.
class Thing {
 public:
  explicit Thing(const Schema* schema = Things()) : schema_(schema) {}

  Thing& Update(const std::string& manager, const Json& after,
                const std::string& subresource = "") {
    managed_ = TrackWrite(schema_, object_, Full(after), std::move(managed_),
                          Writer(manager, subresource));
    object_ = Full(after);
    return *this;
  }
  // The conflicts' paths; the object is then as it was.
  std::vector<std::string> Apply(const std::string& manager, const Json& config,
                                 bool force = false) {
    auto result =
        ApplyConfiguration(schema_, object_, Full(config), managed_, Writer(manager, ""), force);
    if (!result.ok()) return {std::string(base::Message(result.status()))};
    std::vector<std::string> conflicts;
    for (const ApplyConflict& conflict : result->conflicts) {
      for (const std::string& path : conflict.fields.Paths(10)) {
        conflicts.push_back(fmt::format("{}: {}", conflict.manager, path));
      }
    }
    if (!conflicts.empty()) return conflicts;
    object_ = WithoutNulls(result->object);
    managed_ = std::move(result->managed);
    return {};
  }

  // The object without its name and kind.
  Json object() const {
    Json out = object_;
    out.erase("apiVersion");
    out.erase("kind");
    out["metadata"].erase("name");
    if (out["metadata"].empty()) out.erase("metadata");
    return out;
  }
  Json fields(const std::string& manager) const {
    for (const ManagedEntry& entry : managed_) {
      if (entry.manager == manager) return entry.fields.ToJson();
    }
    return nullptr;
  }
  std::string time(const std::string& manager) const {
    for (const ManagedEntry& entry : managed_) {
      if (entry.manager == manager) return entry.time;
    }
    return "";
  }
  ManagedFields& managed() { return managed_; }
  std::string version = "v1";

 private:
  Json Full(Json object) const {
    object["apiVersion"] = version;
    object["kind"] = "Thing";
    object["metadata"]["name"] = "one";
    return object;
  }
  static Json WithoutNulls(const Json& value) {
    if (!value.is_object()) return value;
    Json out = Json::object();
    for (const auto& [name, item] : value.items()) {
      if (!item.is_null()) out[name] = WithoutNulls(item);
    }
    return out;
  }
  FieldWriter Writer(const std::string& manager, const std::string& subresource) {
    return {.manager = manager,
            .api_version = version,
            .subresource = subresource,
            .time = fmt::format("2026-01-01T00:{:02}:00Z", minutes_++)};
  }

  const Schema* schema_;
  Json object_;
  ManagedFields managed_;
  int minutes_ = 0;
};

TEST(TrackWriteTest, ACreatorManagesWhatItSets) {
  Thing thing;
  thing.Update("kubectl-create", R"({
      "metadata": {"uid": "1", "labels": {"app": "x"}},
      "spec": {"size": 1, "words": ["b"], "set": ["z"], "nested": {"a": "1"}, "maps": {"k": {"a": "1"}},
               "containers": [{"name": "main", "ports": [{"port": 80}]}]}})"_json);
  // As kubectl shows it: "." stands at what was not there before, but not at spec and containers.
  EXPECT_EQ(thing.fields("kubectl-create"), R"({
      "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
      "f:spec": {"f:size": {}, "f:words": {}, "f:set": {".": {}, "v:\"z\"": {}},
                 "f:nested": {".": {}, "f:a": {}},
                 "f:maps": {".": {}, "f:k": {".": {}, "f:a": {}}},
                 "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:name": {},
                   "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}}})"_json);
}

TEST(TrackWriteTest, AWriterTakesOverWhatItChanges) {
  Thing thing;
  thing.Update("a", R"({"spec": {"size": 1, "mode": "x", "class": "c", "set": ["p", "q"]}})"_json);
  const std::string time = thing.time("a");
  thing.Update("b", R"({"spec": {"size": 2, "mode": "x", "set": ["q", "r"]}})"_json);
  EXPECT_EQ(thing.fields("a"),
            R"({"f:spec": {"f:mode": {}, "f:set": {".": {}, "v:\"q\"": {}}}})"_json);
  EXPECT_EQ(thing.fields("b"), R"({"f:spec": {"f:size": {}, "f:set": {"v:\"r\"": {}}}})"_json);
  EXPECT_EQ(thing.time("a"), time);
  // A write that changes nothing moves nothing, not even the time.
  const std::string before = thing.time("b");
  thing.Update("b", R"({"spec": {"size": 2, "mode": "x", "set": ["q", "r"]}})"_json);
  EXPECT_EQ(thing.time("b"), before);
  // Who has nothing left is no manager.
  thing.Update("b", R"({"spec": {"size": 2}})"_json);
  EXPECT_EQ(thing.fields("a"), nullptr);
}

TEST(TrackWriteTest, TheStatusHasManagersOfItsOwn) {
  Thing thing;
  thing.Update("a", R"({"spec": {"size": 1}})"_json);
  thing.Update("a", R"({"spec": {"size": 1}, "status": {"phase": "Ready"}})"_json, "status");
  ASSERT_EQ(thing.managed().size(), 2u);
  EXPECT_EQ(thing.managed()[1].subresource, "status");
  EXPECT_EQ(thing.managed()[1].fields.ToJson(), R"({"f:status": {".": {}, "f:phase": {}}})"_json);
  const Json json = ManagedFieldsJson(thing.managed());
  EXPECT_FALSE(json[0].contains("subresource"));
  EXPECT_EQ(json[1]["subresource"], "status");
}

TEST(TrackWriteTest, AnObjectWithoutManagersStaysWithoutUntilItIsApplied) {
  Thing thing;
  thing.Update("a", R"({"spec": {"size": 1}})"_json);
  thing.managed().clear();
  thing.Update("a", R"({"spec": {"size": 2}})"_json);
  EXPECT_THAT(thing.managed(), IsEmpty());
  EXPECT_THAT(thing.Apply("b", R"({"spec": {"mode": "x"}})"_json), IsEmpty());
  EXPECT_EQ(thing.fields("before-first-apply"), R"({"f:spec": {"f:size": {}}})"_json);
  EXPECT_THAT(thing.Apply("b", R"({"spec": {"size": 3}})"_json),
              ElementsAre(R"("before-first-apply" using v1: .spec.size)"));
}

TEST(TrackWriteTest, TheOldestOfTooManyWritersAreMerged) {
  Thing thing;
  Json object = R"({"metadata": {"labels": {}}})"_json;
  for (int i = 0; i < 14; ++i) {
    object["metadata"]["labels"][fmt::format("l{}", i)] = "x";
    thing.Update(fmt::format("m{}", i), object);
  }
  EXPECT_EQ(thing.managed().size(), 10u);
  EXPECT_EQ(thing.fields("m0"), nullptr);
  EXPECT_EQ(thing.fields("m4"), nullptr);
  EXPECT_EQ(thing.fields("ancient-changes"),
            R"({"f:metadata": {"f:labels": {".": {}, "f:l0": {}, "f:l1": {}, "f:l2": {}, "f:l3": {},
                "f:l4": {}}}})"_json);
  EXPECT_EQ(thing.fields("m5"), R"({"f:metadata": {"f:labels": {"f:l5": {}}}})"_json);
  // Appliers are never merged.
  for (int i = 0; i < 12; ++i) {
    EXPECT_THAT(thing.Apply(fmt::format("a{}", i), R"({"spec": {"size": 1}})"_json), IsEmpty());
  }
  EXPECT_EQ(thing.managed().size(), 22u);
}

TEST(TrackWriteTest, ItemsOfOneKeyAreOneField) {
  Thing thing;
  thing.Update(
      "a",
      R"({"spec": {"containers": [{"name": "x", "image": "1"}, {"name": "x"}, {"name": "y"}]}})"_json);
  EXPECT_EQ(thing.fields("a"),
            R"({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {},
                "k:{\"name\":\"y\"}": {".": {}, "f:name": {}}}}})"_json);
  thing.Update(
      "b",
      R"({"spec": {"containers": [{"name": "x", "image": "1"}, {"name": "x", "image": "2"}, {"name": "y"}]}})"_json);
  EXPECT_EQ(thing.fields("b"), R"({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {}}}})"_json);
  thing.Update("c",
               R"({"spec": {"containers": [{"name": "x", "image": "1"}, {"name": "y"}]}})"_json);
  EXPECT_EQ(thing.fields("b"), nullptr);
  EXPECT_EQ(
      thing.fields("c"),
      R"({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}, "f:name": {}}}}})"_json);
}

struct MergeCase {
  const char* name;
  Json live;    // written by "other"
  Json config;  // applied with force by "me"
  Json result;
};

class ApplyMergeTest : public testing::TestWithParam<MergeCase> {};

TEST_P(ApplyMergeTest, Merges) {
  Thing thing;
  thing.Update("other", {{"spec", GetParam().live}});
  EXPECT_THAT(thing.Apply("me", {{"spec", GetParam().config}}, true), IsEmpty());
  EXPECT_EQ(thing.object()["spec"], GetParam().result);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ApplyMergeTest,
    testing::Values(
        MergeCase{"Scalar", R"({"size": 1, "mode": "x"})"_json, R"({"size": 2})"_json,
                  R"({"size": 2, "mode": "x"})"_json},
        MergeCase{"Object", R"({"nested": {"a": "1", "deep": {"x": "1"}}})"_json,
                  R"({"nested": {"b": "2"}})"_json,
                  R"({"nested": {"a": "1", "b": "2", "deep": {"x": "1"}}})"_json},
        MergeCase{"AtomicObject", R"({"whole": {"a": "1"}})"_json, R"({"whole": {"b": "2"}})"_json,
                  R"({"whole": {"b": "2"}})"_json},
        MergeCase{"AtomicMap", R"({"wholeMap": {"a": "1"}})"_json,
                  R"({"wholeMap": {"b": "2"}})"_json, R"({"wholeMap": {"b": "2"}})"_json},
        MergeCase{"AtomicList", R"({"words": ["a", "b"]})"_json, R"({"words": ["c"]})"_json,
                  R"({"words": ["c"]})"_json},
        MergeCase{"Set", R"({"set": ["a", "b"]})"_json, R"({"set": ["c", "b"]})"_json,
                  R"({"set": ["a", "c", "b"]})"_json},
        MergeCase{"SetTakesTheAppliedOrder", R"({"numbers": [1, 2, 3, 4]})"_json,
                  R"({"numbers": [4, 9, 1]})"_json, R"({"numbers": [2, 3, 4, 9, 1]})"_json},
        MergeCase{"SetKeepsDuplicates", R"({"numbers": [1, 1, 3]})"_json,
                  R"({"numbers": [5]})"_json, R"({"numbers": [1, 1, 3, 5]})"_json},
        MergeCase{"SetMergesDuplicatesItStates", R"({"numbers": [1, 1, 3]})"_json,
                  R"({"numbers": [1]})"_json, R"({"numbers": [1, 3]})"_json},
        MergeCase{
            "MapList", R"({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]})"_json,
            R"({"containers": [{"name": "c"}, {"name": "a", "tty": true}]})"_json,
            R"({"containers": [{"name": "c"}, {"name": "a", "image": "1", "tty": true}, {"name": "b"}]})"_json},
        MergeCase{
            "MapListWithDefaultKey",
            R"({"containers": [{"name": "a", "ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}]})"_json,
            R"({"containers": [{"name": "a", "ports": [{"port": 80, "protocol": "TCP", "name": "web"}]}]})"_json,
            R"({"containers": [{"name": "a", "ports": [{"port": 80, "protocol": "TCP", "name": "web"},
                      {"port": 80, "protocol": "UDP"}]}]})"_json},
        MergeCase{"Map", R"({"maps": {"k": {"a": "1"}}})"_json,
                  R"({"maps": {"k": {"b": "2"}, "l": {}}})"_json,
                  R"({"maps": {"k": {"a": "1", "b": "2"}, "l": {}}})"_json},
        MergeCase{"EmptyStatesNothing",
                  R"({"nested": {"a": "1"}, "set": ["a"], "words": ["a"]})"_json,
                  R"({"nested": {}, "set": [], "words": []})"_json,
                  R"({"nested": {"a": "1"}, "set": ["a"], "words": []})"_json},
        MergeCase{"NullUnsets", R"({"size": 1, "nested": {"a": "1"}})"_json,
                  R"({"size": null, "nested": {"a": null}})"_json, R"({"nested": {}})"_json},
        MergeCase{"UnknownTypeIsGranularButForLists",
                  R"({"free": {"a": {"b": 1, "c": [1]}, "d": 1}})"_json,
                  R"({"free": {"a": {"c": [2], "e": 1}}})"_json,
                  R"({"free": {"a": {"b": 1, "c": [2], "e": 1}, "d": 1}})"_json},
        MergeCase{"UnknownTypeChangesItsShape", R"({"free": {"a": {"b": 1}}})"_json,
                  R"({"free": {"a": 5}})"_json, R"({"free": {"a": 5}})"_json}),
    [](const auto& info) { return info.param.name; });

TEST(ApplyTest, ManagesWhatItStatesAndNothingElse) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"metadata": {"labels": {"app": "x"}},
      "spec": {"size": 1, "nested": {"a": "1"}, "set": ["z"], "words": [], "containers": [{"name": "m"}]}})"_json),
              IsEmpty());
  EXPECT_EQ(thing.fields("me"), R"({"f:metadata": {"f:labels": {"f:app": {}}},
      "f:spec": {"f:size": {}, "f:nested": {"f:a": {}}, "f:set": {"v:\"z\"": {}}, "f:words": {},
                 "f:containers": {"k:{\"name\":\"m\"}": {".": {}, "f:name": {}}}}})"_json);
}

TEST(ApplyTest, RemovesWhatItNoLongerStates) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"metadata": {"labels": {"a": "1", "b": "2"}},
      "spec": {"size": 1, "mode": "x", "set": ["p", "q"], "words": ["w"], "nested": {"a": "1", "deep": {"x": "1"}},
               "containers": [{"name": "m", "image": "1"}, {"name": "n"}], "maps": {"k": {"a": "1"}, "l": {}}}})"_json),
              IsEmpty());
  EXPECT_THAT(thing.Apply("me", R"({"metadata": {"labels": {"b": "2"}},
      "spec": {"size": 1, "set": ["q"], "containers": [{"name": "m"}], "maps": {"k": {}}}})"_json),
              IsEmpty());
  EXPECT_EQ(thing.object(), R"({"metadata": {"labels": {"b": "2"}},
      "spec": {"size": 1, "set": ["q"], "containers": [{"name": "m"}], "maps": {}}})"_json);
  EXPECT_THAT(thing.Apply("me", R"({})"_json), IsEmpty());
  EXPECT_EQ(thing.object(), Json::object());
  EXPECT_THAT(thing.managed(), IsEmpty());
}

TEST(ApplyTest, KeepsWhatOthersManageToo) {
  Thing thing;
  EXPECT_THAT(thing.Apply("one", R"({"spec": {"size": 1, "mode": "x", "set": ["p", "q"]}})"_json),
              IsEmpty());
  EXPECT_THAT(thing.Apply("two", R"({"spec": {"size": 1, "set": ["q", "r"]}})"_json), IsEmpty());
  EXPECT_EQ(thing.fields("one")["f:spec"]["f:size"], Json::object());
  EXPECT_EQ(thing.fields("two")["f:spec"]["f:size"], Json::object());
  EXPECT_THAT(thing.Apply("one", R"({})"_json), IsEmpty());
  EXPECT_EQ(thing.object(), R"({"spec": {"size": 1, "set": ["q", "r"]}})"_json);
  EXPECT_EQ(thing.fields("one"), nullptr);
}

TEST(ApplyTest, KeepsWhatAControllerAddedToWhatGoes) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"nested": {"a": "1"}, "size": 1}})"_json), IsEmpty());
  thing.Update("controller", R"({"spec": {"nested": {"a": "1", "b": "2"}, "size": 1}})"_json);
  EXPECT_THAT(thing.Apply("me", R"({"metadata": {"labels": {"x": "1"}}})"_json), IsEmpty());
  EXPECT_EQ(thing.object(),
            R"({"metadata": {"labels": {"x": "1"}}, "spec": {"nested": {"b": "2"}}})"_json);
}

TEST(ApplyTest, AnItemGoesWithWhatNobodyManages) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})"_json),
              IsEmpty());
  thing.Update("controller",
               R"({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}})"_json);
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"containers": [{"name": "b"}]}})"_json), IsEmpty());
  // The controller's image keeps no container alive, but is kept by nobody else's removal.
  EXPECT_EQ(thing.object(), R"({"spec": {"containers": [{"name": "b"}]}})"_json);
  EXPECT_EQ(thing.fields("controller"), nullptr);
}

TEST(ApplyTest, ConflictsNameManagerAndPath) {
  Thing thing;
  thing.Update(
      "editor",
      R"({"spec": {"size": 1, "mode": "x", "containers": [{"name": "a", "image": "1"}]}})"_json);
  EXPECT_THAT(thing.Apply("two", R"({"spec": {"mode": "x"}})"_json),
              IsEmpty());  // the same value: shared
  EXPECT_THAT(
      thing.Apply(
          "me",
          R"({"spec": {"size": 2, "mode": "y", "containers": [{"name": "a", "image": "2"}]}})"_json),
      ElementsAre(R"("editor" using v1: .spec.mode)", R"("editor" using v1: .spec.size)",
                  R"("editor" using v1: .spec.containers[name="a"].image)",
                  R"("two": .spec.mode)"));
  EXPECT_EQ(thing.object()["spec"]["size"], 1);
  // Force takes the fields over.
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"size": 2, "mode": "y"}})"_json, true), IsEmpty());
  EXPECT_EQ(thing.object()["spec"]["size"], 2);
  EXPECT_EQ(thing.fields("two"), nullptr);
  EXPECT_FALSE(thing.fields("editor")["f:spec"].contains("f:size"));
  EXPECT_TRUE(thing.fields("editor")["f:spec"].contains("f:containers"));
}

TEST(ApplyTest, StatusWritersAreNamedWithTheirSubresource) {
  Thing thing;
  thing.Update("kubelet", R"({"status": {"phase": "Ready"}})"_json, "status");
  EXPECT_THAT(thing.Apply("me", R"({"status": {"phase": "Gone"}})"_json),
              ElementsAre(R"("kubelet" with subresource "status" using v1: .status.phase)"));
}

TEST(ApplyTest, AnAtomicValueIsContestedAsAWhole) {
  Thing thing;
  EXPECT_THAT(thing.Apply("one", R"({"spec": {"words": ["a"], "wholeMap": {"a": "1"}}})"_json),
              IsEmpty());
  EXPECT_THAT(thing.Apply("two", R"({"spec": {"words": ["b"], "wholeMap": {"b": "1"}}})"_json),
              ElementsAre(R"("one": .spec.wholeMap)", R"("one": .spec.words)"));
}

TEST(ApplyTest, OneApplierHasOneEntryForAllVersions) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"size": 1, "mode": "x"}})"_json), IsEmpty());
  thing.version = "v2";
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"size": 1}})"_json), IsEmpty());
  EXPECT_EQ(thing.object(), R"({"spec": {"size": 1}})"_json);
  ASSERT_EQ(thing.managed().size(), 1u);
  EXPECT_EQ(thing.managed()[0].api_version, "v2");
  thing.Update("u", R"({"spec": {"size": 2}})"_json);
  thing.version = "v1";
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"size": 3}})"_json),
              ElementsAre(R"("u" using v2: .spec.size)"));
}

TEST(ApplyTest, RefusesWhatCannotBeMerged) {
  Thing thing;
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}})"_json),
              ElementsAre(R"(.spec.containers: duplicate entries for key [name="a"])"));
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"set": ["a", "a"]}})"_json),
              ElementsAre(R"(.spec.set: duplicate entries for key [="a"])"));
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"containers": [{"image": "a"}]}})"_json),
              ElementsAre(HasSubstr(R"(omits key field "name")")));
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"set": [{"a": 1}]}})"_json),
              ElementsAre(HasSubstr("a set holds plain values only")));
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"nested": {"c": "1"}}})"_json),
              ElementsAre(".spec.nested.c: field not declared in schema"));
}

TEST(ApplyTest, KubectlTakesOverFromItsClientSideApply) {
  const char* annotation = "kubectl.kubernetes.io/last-applied-configuration";
  Thing thing;
  Json object = R"({"metadata": {"annotations": {}}, "spec": {"size": 1, "mode": "x"}})"_json;
  object["metadata"]["annotations"][annotation] =
      R"({"apiVersion":"v1","kind":"Thing","metadata":{"name":"one"},"spec":{"size":1,"mode":"x"}})";
  thing.Update("kubectl-client-side-apply", object);
  // Another manager's apply conflicts; kubectl's does not.
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"size": 2}})"_json),
              ElementsAre(R"("kubectl-client-side-apply" using v1: .spec.size)"));
  EXPECT_THAT(thing.Apply("kubectl", R"({"spec": {"size": 2, "mode": "x"}})"_json), IsEmpty());
  EXPECT_EQ(thing.object()["spec"], R"({"size": 2, "mode": "x"})"_json);
  EXPECT_EQ(
      thing.object()["metadata"]["annotations"][annotation],
      R"({"apiVersion":"v1","kind":"Thing","metadata":{"name":"one"},"spec":{"mode":"x","size":2}})"
      "\n");
  // A field that another manager has changed since then is still a conflict.
  object["spec"] = R"({"size": 2, "mode": "z"})"_json;
  object["metadata"] = thing.object()["metadata"];
  thing.Update("editor", object);
  EXPECT_THAT(thing.Apply("kubectl", R"({"spec": {"size": 2, "mode": "x"}})"_json),
              ElementsAre(R"("editor" using v1: .spec.mode)"));
}

TEST(ApplyTest, WithoutSchemaTakesTheTypeThatItSees) {
  Thing thing(nullptr);
  thing.Update("other", R"({"spec": {"a": {"b": 1}, "list": [{"name": "x"}]}})"_json);
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"a": {"c": 2}}})"_json), IsEmpty());
  EXPECT_EQ(thing.fields("me"), R"({"f:spec": {".": {}, "f:a": {".": {}, "f:c": {}}}})"_json);
  EXPECT_THAT(thing.Apply("me", R"({"spec": {"list": [{"name": "y"}]}})"_json),
              ElementsAre(R"("other" using v1: .spec.list)"));
}

// What `sets` become by the schema of Things.
std::vector<Json> Follow(std::vector<Json> sets, const Json& object) {
  std::vector<FieldSet> parsed;
  for (const Json& set : sets) parsed.push_back(FieldSet::FromJson(set).value());
  std::vector<FieldSet*> pointers;
  for (FieldSet& set : parsed) pointers.push_back(&set);
  FollowSchema(Things(), object, pointers);
  for (size_t i = 0; i < sets.size(); ++i) sets[i] = parsed[i].ToJson();
  return sets;
}

TEST(FollowSchemaTest, ManagersFollowAListThatBecomesGranularOrAtomic) {
  EXPECT_THAT(Follow({R"({"f:spec": {"f:set": {}, "f:nested": {"f:a": {}}}})"_json},
                     R"({"spec": {"set": ["p"]}})"_json),
              ElementsAre(R"({"f:spec": {"f:set": {".": {}, "v:\"p\"": {}},
                              "f:nested": {"f:a": {}}}})"_json));
  EXPECT_THAT(Follow({R"({"f:spec": {"f:words": {"v:\"a\"": {}}, "f:whole": {"f:a": {}}}})"_json},
                     Json::object()),
              ElementsAre(R"({"f:spec": {"f:words": {}, "f:whole": {}}})"_json));
}

TEST(FollowSchemaTest, WhoManagesAnEmptyMapGetsNothingOfWhatOthersPutThere) {
  const Json empty = R"({"f:metadata": {"f:labels": {}}})"_json;
  const Json other = R"({"f:metadata": {"f:labels": {"f:a": {}}}})"_json;
  EXPECT_THAT(Follow({empty, other}, R"({"metadata": {"labels": {"a": "1"}}})"_json),
              ElementsAre(empty, other));
}

TEST(ManagedFieldsTest, RoundTripsInOrder) {
  const Json json = R"([
      {"manager": "z", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T00:00:00Z",
       "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}},
      {"manager": "b", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
       "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}},
      {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T00:00:00Z",
       "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}, "subresource": "status"}])"_json;
  auto parsed = ParseManagedFields(json).value();
  EXPECT_EQ(ManagedFieldsJson(parsed), json);
  std::reverse(parsed.begin(), parsed.end());
  EXPECT_EQ(ManagedFieldsJson(parsed), json);
  Json later = json;
  later[1]["time"] = "2026-01-03T00:00:00Z";
  EXPECT_TRUE(EqualExceptTimes(json, later));
  later[1]["manager"] = "c";
  EXPECT_FALSE(EqualExceptTimes(json, later));
}

TEST(ManagedFieldsTest, RefusesMalformedEntries) {
  const Json good =
      R"({"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"})"_json;
  EXPECT_TRUE(ParseManagedFields(Json::array({good})).ok());
  const auto with = [&](const char* member, const Json& value) {
    Json entry = good;
    entry[member] = value;
    return Json::array({entry});
  };
  for (const Json& bad : {Json(1), Json::array({1}), with("operation", "Delete"),
                          with("apiVersion", ""), with("fieldsType", "FieldsV2"),
                          with("time", "yesterday"), with("fieldsV1", R"({"a": {}})"_json)}) {
    EXPECT_FALSE(ParseManagedFields(bad).ok()) << bad;
  }
  EXPECT_TRUE(IsManagedFieldsReset(Json::array()) && IsManagedFieldsReset(R"([{}])"_json));
  EXPECT_FALSE(IsManagedFieldsReset(nullptr) || IsManagedFieldsReset(R"([{}, {}])"_json));
}

}  // namespace
}  // namespace berth::api
