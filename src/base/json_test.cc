#include "base/json.h"

#include <gtest/gtest.h>

namespace berth::base::json {
namespace {

TEST(JsonTest, ReadsDeepMembersAndFallsBack) {
  const Json value = Json::parse(R"({"a":{"s":"x","n":3,"b":true,"l":[1]}})");
  EXPECT_EQ(String(value, {"a", "s"}), "x");
  EXPECT_EQ(String(value, {"a", "n"}, "other type"), "other type");
  EXPECT_EQ(Int(value, {"a", "n"}), 3);
  EXPECT_TRUE(Bool(value, {"a", "b"}));
  EXPECT_EQ(Array(value, {"a", "l"}).size(), 1u);
  EXPECT_TRUE(Array(value, {"a", "s"}).empty());
  EXPECT_EQ(Find(value, {"a", "s", "deeper"}), nullptr);
}

TEST(JsonTest, SetMakesObjectsOnTheWay) {
  Json value = Json::parse(R"({"a":null})");
  Set(value, {"a", "b", "c"}, 1);
  EXPECT_EQ(value, Json::parse(R"({"a":{"b":{"c":1}}})"));
  Remove(value, {"a", "b", "c"});
  Remove(value, {"x", "y"});
  EXPECT_EQ(value, Json::parse(R"({"a":{"b":{}}})"));
}

TEST(JsonTest, ParsingIsBounded) {
  EXPECT_EQ(Parse("{\"a\":").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse(std::string(100, ' '), {.max_bytes = 99}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(Parse(std::string(100000, '[')).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Parse(R"(["[[[[[[[[", "\"{{{"])", {.max_depth = 1}).ok());
}

TEST(JsonTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Dump(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace berth::base::json
