#include <gtest/gtest.h>

#include "base/json_builder.h"

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

TEST(JsonTest, AZeroByteIsNotTheEnd) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"{}\0"sv, "{}\0,1"sv, "\0{}"sv, "\"a\0b\""sv}) {
    EXPECT_EQ(json::Parse(text).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(JsonTest, ParsesWhatItWouldDump) {
  for (const char* text :
       {"null", "-1", "18446744073709551615", "1.5", "\"x\"", "[]", "{}", R"([1,[],{"a":[true]}])",
        R"({"a":{"b":[{"c":null},2]},"d":"\u00e9"})"}) {
    EXPECT_EQ(*Parse(text), Json::parse(text)) << text;
  }
  EXPECT_EQ(Dump(*Parse(R"({"b":1,"a":[2],"b":3})")), R"({"a":[2],"b":3})");
  for (const char* text :
       {"", "{", "[1", "[1,]", "{\"a\"}", "1 2", "{}x", "nul", "1e999", "\"\xff\""}) {
    EXPECT_EQ(Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(JsonTest, LeavesAnUnwantedMemberOut) {
  const auto parse = [](std::string_view text, int max_depth = 64) {
    return ParseWithout({.of = "metadata", .name = "managedFields"}, text,
                        {.max_depth = max_depth});
  };
  EXPECT_EQ(Dump(*parse(R"({"items":[{"metadata":{"a":1,"managedFields":[{"f":{"x":[]}}],"z":2}},
                            {"metadata":{"managedFields":null},"managedFields":4}]})")),
            R"({"items":[{"metadata":{"a":1,"z":2}},{"managedFields":4,"metadata":{}}]})");
  EXPECT_EQ(Dump(*parse(R"({"metadata":[{"managedFields":1}],"spec":{"managedFields":{}}})")),
            R"({"metadata":[{"managedFields":1}],"spec":{"managedFields":{}}})");
  EXPECT_FALSE(parse(R"({"metadata":{"managedFields":[[[]]]}})", 4).ok());
  EXPECT_FALSE(parse(R"({"metadata":{"managedFields":[)").ok());
}

TEST(JsonTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Dump(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace berth::base::json
