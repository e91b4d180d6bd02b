#include "api/merging/conform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::Json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Outcome {
  Json object;
  std::vector<std::string> strict;
  std::string error;
};

Outcome Conformed(const KindInfo& kind, Json object, bool custom = false) {
  StrictErrors strict;
  const base::Status status = Conform(*SchemaOf(kind), object, {.custom = custom}, strict);
  return {std::move(object), strict.all(), std::string(base::Message(status))};
}

TEST(Conform, UnknownFieldsAreDroppedAndToldOf) {
  const Outcome outcome = Conformed(
      kinds::kPod,
      {{"bogus", 1},
       {"metadata", {{"labels", {{"any", "x"}}}, {"nmae", "p"}}},
       {"spec",
        {{"containers", Json::array({{{"name", "a"}}, {{"name", "b"}, {"comand", {"x"}}}})}}}});
  EXPECT_THAT(outcome.strict,
              ElementsAre("unknown field \"bogus\"", "unknown field \"metadata.nmae\"",
                          "unknown field \"spec.containers[1].comand\""));
  EXPECT_EQ(outcome.object,
            Json({{"metadata", {{"labels", {{"any", "x"}}}}},
                  {"spec", {{"containers", Json::array({{{"name", "a"}}, {{"name", "b"}}})}}}}));
}

TEST(Conform, MembersOfInlinedObjectsAreKnown) {
  const Json volume = {{"spec", {{"csi", {{"driver", "d"}, {"volumeHandle", "h"}}}}}};
  EXPECT_EQ(Conformed(kinds::kPersistentVolume, volume).object, volume);
}

TEST(Conform, NullMeansAbsentAndInMapsZero) {
  const Outcome outcome =
      Conformed(kinds::kConfigMap, {{"metadata", {{"creationTimestamp", nullptr}, {"name", "m"}}},
                                    {"data", {{"a", nullptr}, {"b", "x"}}},
                                    {"binaryData", nullptr}});
  EXPECT_EQ(outcome.object,
            Json({{"metadata", {{"name", "m"}}}, {"data", {{"a", ""}, {"b", "x"}}}}));
}

TEST(Conform, WrongTypesAreRefusedInGosWords) {
  EXPECT_EQ(Conformed(kinds::kPod, {{"spec", {{"priority", "high"}}}}).error,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type "
            "int32");
  EXPECT_EQ(Conformed(kinds::kPod, {{"spec", {{"priority", 3000000000}}}}).error,
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority "
            "of type int32");
  EXPECT_EQ(Conformed(kinds::kPod, {{"spec", {{"priority", 1.5}}}}).error,
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type "
            "int32");
  EXPECT_EQ(Conformed(kinds::kPod, {{"spec", {{"containers", Json::array({{{"command", "sh"}}})}}}})
                .error,
            "json: cannot unmarshal string into Go struct field "
            "Container.spec.containers.command of type []string");
  EXPECT_EQ(Conformed(kinds::kConfigMap, {{"data", {{"a", 1}}}}).error,
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string");
  EXPECT_THAT(Conformed(kinds::kSecret, {{"data", {{"a", "%%%"}}}}).error, HasSubstr("base64"));
  EXPECT_THAT(Conformed(kinds::kNode, {{"status", {{"capacity", {{"cpu", "lots"}}}}}}).error,
              HasSubstr("quantities must match"));
}

TEST(Conform, AMicroTimeHasSixDecimals) {
  const auto conformed = [](std::string_view time) {
    return Conformed(kinds::kLease, {{"spec", {{"renewTime", std::string(time)}}}});
  };
  EXPECT_EQ(conformed("2026-01-01T02:00:00.120000+02:00").object["spec"]["renewTime"],
            "2026-01-01T00:00:00.120000Z");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"2026-01-01T00:00:00Z", "cannot parse \"Z\" as \".000000\""},
      {"2026-01-01T00:00:00.12Z", "cannot parse \".12Z\" as \".000000\""},
      {"2026-01-01T00:00:00,120000Z", "cannot parse \",120000Z\" as \".000000\""},
      {"2026-01-01T00:00:00.123456789Z", "cannot parse \"789Z\" as \"Z07:00\""},
      {"2026-01-01T00:00:00.123456", "parsing time"},
      {"soon", "parsing time \"soon\" as \"2006-01-02T15:04:05.000000Z07:00\""}};
  for (const auto& [time, words] : cases) {
    EXPECT_THAT(conformed(time).error, HasSubstr(words)) << time;
  }
}

TEST(Conform, QuantitiesAndTimesBecomeCanonical) {
  EXPECT_EQ(
      Conformed(kinds::kNode, {{"metadata", {{"creationTimestamp", "2026-01-01T02:00:00.5+02:00"}}},
                               {"status", {{"capacity", {{"cpu", 2}, {"memory", "1024Mi"}}}}}})
          .object,
      Json({{"metadata", {{"creationTimestamp", "2026-01-01T00:00:00Z"}}},
            {"status", {{"capacity", {{"cpu", "2"}, {"memory", "1Gi"}}}}}}));
}

TEST(Conform, ACustomResourceIsOnlyPruned) {
  // As for a custom resource, whose validation tells of types; its metadata is typed.
  const Json pod = {{"spec", {{"priority", "high"}, {"nodeName", nullptr}}}};
  EXPECT_EQ(Conformed(kinds::kPod, pod, true).object, pod);
  EXPECT_THAT(Conformed(kinds::kPod, {{"metadata", {{"name", 1}}}}, true).error,
              HasSubstr("cannot unmarshal"));
  EXPECT_THAT(Conformed(kinds::kPod, {{"spec", {{"x", 1}}}}, true).strict,
              ElementsAre("unknown field \"spec.x\""));
}

TEST(Conform, ErrorsAreBounded) {
  Json object = Json::object();
  for (int i = 0; i < 1000; ++i) object[std::to_string(i)] = 1;
  EXPECT_EQ(Conformed(kinds::kPod, object).strict.size(), 100U);
}

std::vector<std::string> Duplicates(std::string_view text) {
  StrictErrors strict;
  FindDuplicates(text, Json::parse(text), strict);
  return strict.all();
}

TEST(Duplicates, AreFoundWithTheirPaths) {
  EXPECT_THAT(Duplicates(R"({"a":{"b":1,"b":2},"c":[{"d":1},{"d":1,"d":2}],"a":{}})"),
              ElementsAre("duplicate field \"a.b\"", "duplicate field \"c[1].d\"",
                          "duplicate field \"a\""));
}

// Built for each of the 300,000 duplicates, the paths would be 450 GB.
TEST(Duplicates, ManyBelowALongKeyCostNoMoreThanTheText) {
  std::string text = "{\"" + std::string(1'500'000, 'k') + "\":{\"\":0";
  for (int i = 0; i < 300'000; ++i) text += ",\"\":0";
  text += "}}";
  const auto found = Duplicates(text);
  ASSERT_EQ(found.size(), 100u);
  for (const std::string& error : found) EXPECT_LT(error.size(), 2000u);
}

TEST(Duplicates, TextThatLooksLikeAKeyIsNone) {
  EXPECT_THAT(Duplicates(R"({"a:b":"x:y\":","c":[":",{"a:b":1}],"d":{}})"), ElementsAre());
}

}  // namespace
}  // namespace berth::api
