#include "api/kinds/flex_reports.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

TEST(FlexReports, AreReadAsTheyWereWritten) {
  const std::map<std::string, FlexReport> drivers = {
      {"acme.io/block", {.ready = true, .reason = ""}},
      {"acme.io/old", {.removed = true, .reason = "kept for 'pods/1'"}},
      {"nfs", {.ready = false, .reason = "init printed \"no\"\n"}}};
  EXPECT_EQ(ReadFlexReports(WriteFlexReports(drivers)), drivers);
}

TEST(FlexReports, OfAnythingElseAreNone) {
  for (const char* text : {"", "[]", "{", "\"x\"", "7"}) {
    EXPECT_TRUE(ReadFlexReports(text).empty()) << text;
  }
  EXPECT_EQ(ReadFlexReports(R"({"a": 7, "b": {"ready": "yes"}})"),
            (std::map<std::string, FlexReport>{{"a", {}}, {"b", {}}}));
}

TEST(FlexReports, OfManyDriversThatFailFitIntoAnAnnotation) {
  std::map<std::string, FlexReport> drivers;
  for (int i = 0; i < 1000; ++i) {
    drivers["vendor.example.com/driver-" + std::to_string(i)].reason = std::string(4000, 'x');
  }
  const std::string text = WriteFlexReports(drivers);
  EXPECT_LT(text.size(), 160u * 1024);
  EXPECT_EQ(ReadFlexReports(text).size(), drivers.size());
}

TEST(FlexReports, ReasonsAreCutBetweenCharacters) {
  std::map<std::string, FlexReport> drivers;
  for (int i = 0; i < 8; ++i) drivers[std::string(1, static_cast<char>('a' + i))].reason = "";
  drivers["a"].reason = "x";
  for (int i = 0; i < 2000; ++i) drivers["a"].reason += "\u00e9";
  const auto read = ReadFlexReports(WriteFlexReports(drivers));
  EXPECT_TRUE(read.at("a").reason.ends_with("\u00e9..."));
}

}  // namespace
}  // namespace berth::api
