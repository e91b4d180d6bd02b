#include "kube/informers/json_packer.h"

#include <gtest/gtest.h>

#include <limits>

namespace berth::kube {
namespace {

using base::Json;
using nlohmann::literals::operator""_json;

Json Volume(int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata",
           {{"name", fmt::format("pvc-0f3b2c1d-1111-4222-8333-{:012x}", i)},
            {"uid", fmt::format("77d1c9e2-1111-4222-8333-{:012x}", i)},
            {"resourceVersion", fmt::format("{}", 1000 + i)},
            {"annotations", {{"pv.kubernetes.io/provisioned-by", "driver.example.com"}}},
            {"finalizers", {"external-provisioner.volume.kubernetes.io/finalizer"}}}},
          {"spec",
           {{"accessModes", {"ReadWriteOnce"}},
            {"csi", {{"driver", "driver.example.com"}, {"volumeHandle", fmt::format("h-{}", i)}}},
            {"storageClassName", "fast"}}},
          {"status", {{"phase", "Bound"}}}};
}

// Packs the value three times, because its strings are in the table from the second time on.
void ExpectTheSame(JsonPacker& packer, const Json& value) {
  for (int time = 0; time < 3; ++time) {
    const Json unpacked = packer.Unpack(packer.Pack(value));
    EXPECT_EQ(unpacked, value);
    EXPECT_EQ(unpacked.type(), value.type());
  }
}

TEST(JsonPackerTest, GivesBackWhateverJsonTextHolds) {
  JsonPacker packer;
  std::vector<Json> values = {nullptr,
                              true,
                              false,
                              "",
                              "a",
                              0,
                              1,
                              -1,
                              127,
                              128,
                              1.5,
                              -0.0,
                              Json::array(),
                              Json::object(),
                              std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<uint64_t>::max(),
                              std::string(100'000, 'x'),
                              R"({"a": {"": [1, null, {"b": "a"}]}, "b": "a"})"_json,
                              Volume(1)};
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json{{"a", deep}};
  values.push_back(deep);
  for (const Json& value : values) {
    // A number that is not negative may come back as unsigned, as the parser of text makes it.
    if (value.is_number_integer() && !value.is_number_unsigned() && value >= 0) {
      EXPECT_EQ(packer.Unpack(packer.Pack(value)), value);
    } else {
      ExpectTheSame(packer, value);
    }
  }
}

TEST(JsonPackerTest, OnlyAUuidInItsUsualFormIsShortened) {
  JsonPacker packer;
  for (const std::string text :
       {"77d1c9e2-1111-4222-8333-0123456789ab", "pvc-77d1c9e2-1111-4222-8333-0123456789ab",
        "77D1C9E2-1111-4222-8333-0123456789AB", "77d1c9e2-1111-4222-8333-0123456789a",
        "77d1c9e2-1111-4222-8333-0123456789ag", "77d1c9e2+1111-4222-8333-0123456789ab",
        "77d1c9e2-1111-4222-83330-123456789ab", "77d1c9e2-1111-4222-8333-0123456789ab-"}) {
    EXPECT_EQ(packer.Unpack(packer.Pack(text)), text);
  }
  EXPECT_EQ(packer.Pack("77d1c9e2-1111-4222-8333-0123456789ff").size(), 17u);
}

TEST(JsonPackerTest, AStringOfManyUuidsTakesNoDeepStack) {
  std::string text;
  while (text.size() < 3 * 1024 * 1024) text += "77d1c9e2-1111-4222-8333-0123456789ab";
  JsonPacker packer;
  ExpectTheSame(packer, {{text, text}});
  ExpectTheSame(packer, text.substr(0, 72));
}

TEST(JsonPackerTest, AnObjectLikeEarlierOnesTakesFewBytes) {
  JsonPacker packer;
  for (int i = 0; i < 2; ++i) packer.Pack(Volume(i));
  EXPECT_LT(packer.Pack(Volume(2)).size(), 110u);
  EXPECT_GT(base::json::Dump(Volume(2)).size(), 400u);
}

TEST(JsonPackerTest, EachOfManyObjectsIsReadWithTheTableThatItWasWrittenWith) {
  JsonPacker packer;
  std::vector<std::string> packed;
  // More strings that occur twice than the table takes.
  const auto value = [](int i) { return Json{{fmt::format("key-{}", i / 2), i}}; };
  for (int i = 0; i < 12'000; ++i) packed.push_back(packer.Pack(value(i)));
  for (int i = 0; i < 12'000; ++i) ASSERT_EQ(packer.Unpack(packed[i]), value(i));
}

TEST(JsonPackerTest, AStringOfOneObjectAloneDoesNotEnterTheTable) {
  JsonPacker packer;
  const Json twice = {{"a", "of this one"}, {"b", "of this one"}};
  packer.Pack({{"a", 1}, {"b", 1}});
  packer.Pack({{"a", 1}, {"b", 1}});
  EXPECT_EQ(packer.Pack(twice).size(), 2 + 2 * (1 + 2 + std::string("of this one").size()));
}

}  // namespace
}  // namespace berth::kube
