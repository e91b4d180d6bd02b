#include "api/merging/field_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::Json;
using nlohmann::literals::operator""_json;
using testing::ElementsAre;

FieldSet Set(const Json& json) { return FieldSet::FromJson(json).value(); }

TEST(FieldSetTest, ReadsAndWritesFieldsV1) {
  const Json json = R"({
      "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a\"": {}}},
      "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}}},
                 "f:list": {"i:0": {}, "v:1": {}, "v:true": {}}}})"_json;
  const FieldSet set = Set(json);
  EXPECT_EQ(set.ToJson(), json);
  EXPECT_TRUE(set.Contains({"f:metadata", "f:labels", "f:app"}));
  EXPECT_TRUE(set.Contains({"f:metadata", "f:labels"}));
  EXPECT_FALSE(set.Contains({"f:metadata"}));
  EXPECT_FALSE(set.Contains({"f:spec", "f:absent"}));
  EXPECT_TRUE(FieldSet().ToJson() == Json::object() && Set(Json::object()).empty());
}

TEST(FieldSetTest, ElementsHaveOneText) {
  EXPECT_EQ(Set(R"({"f:l": {"k:{ \"b\" : 1.0, \"a\" : \"x\" }": {}}, "f:s": {"v: 2.0": {}}})"_json)
                .ToJson(),
            R"({"f:l": {"k:{\"a\":\"x\",\"b\":1}": {}}, "f:s": {"v:2": {}}})"_json);
  EXPECT_EQ(KeyElement({{"port", 80}, {"protocol", "TCP"}}), R"(k:{"port":80,"protocol":"TCP"})");
  EXPECT_EQ(ValueElement("a\"b"), R"(v:"a\"b")");
}

TEST(FieldSetTest, ReadsWhatOthersMayWrite) {
  // Unknown kinds of elements are left out; a lone "." says what the leaf says.
  EXPECT_EQ(Set(R"({"x:later": {"f:a": {}}, "f:a": {".": {}}})"_json).ToJson(),
            R"({"f:a": {}})"_json);
  for (const Json& bad : {R"([])"_json, R"({"f": {}})"_json, R"({"name": {}})"_json,
                          R"({"f:a": 1})"_json, R"({"k:1": {}})"_json, R"({"k:{": {}})"_json,
                          R"({"v:": {}})"_json, R"({"i:x": {}})"_json, R"({"i:-1": {}})"_json}) {
    EXPECT_EQ(FieldSet::FromJson(bad).status().code(), base::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(FieldSetTest, Algebra) {
  const FieldSet a =
      Set(R"({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {"f:z": {}}})"_json);
  const FieldSet b = Set(R"({"f:a": {}, "f:b": {"f:x": {}}, "f:c": {}, "f:d": {}})"_json);
  EXPECT_EQ(a.Union(b).ToJson(),
            R"({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {".": {}, "f:z": {}},
                "f:d": {}})"_json);
  EXPECT_EQ(a.Intersection(b).ToJson(), R"({"f:a": {}, "f:b": {"f:x": {}}})"_json);
  EXPECT_EQ(a.Difference(b).ToJson(), R"({"f:b": {".": {}, "f:y": {}}, "f:c": {"f:z": {}}})"_json);
  EXPECT_EQ(a.RecursiveDifference(b).ToJson(), R"({"f:b": {".": {}, "f:y": {}}})"_json);
  EXPECT_EQ(b.Difference(a).ToJson(), R"({"f:c": {}, "f:d": {}})"_json);
  EXPECT_TRUE(a.Difference(a).empty());
  EXPECT_TRUE(a == a.Union(a) && a == a.Intersection(a) && !(a == b));
}

TEST(FieldSetTest, AddsInAnyOrder) {
  FieldSet set;
  set.Add("f:b");
  FieldSet below;
  below.Add("f:x");
  set.Add("f:a", false, below);
  set.Add("f:b", false, below);
  set.Add("f:a");
  set.Add("f:c", false, {});
  EXPECT_EQ(set.ToJson(), R"({"f:a": {".": {}, "f:x": {}}, "f:b": {".": {}, "f:x": {}}})"_json);
}

TEST(FieldSetTest, NamesPathsAsMessagesDo) {
  EXPECT_THAT(
      Set(R"({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
                     "f:set": {"v:\"a\"": {}, "v:1": {}}, "f:list": {"i:3": {}}, "f:x": {}}})"_json)
          .Paths(10),
      ElementsAre(".spec.x", ".spec.list[3]", R"(.spec.ports[port=80,protocol="TCP"])",
                  R"(.spec.ports[port=80,protocol="TCP"].name)", R"(.spec.set[="a"])",
                  ".spec.set[=1]"));
}

}  // namespace
}  // namespace berth::api
