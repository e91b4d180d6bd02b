#include "apiserver/formats/media_range.h"

#include <gmock/gmock.h>

namespace berth::apiserver {
namespace {

using testing::ElementsAre;

std::vector<std::string> Types(std::string_view header) {
  std::vector<std::string> types;
  for (const MediaRange& range : ParseAccept(header)) types.push_back(range.type);
  return types;
}

TEST(MediaRangeTest, TheBestComesFirst) {
  EXPECT_THAT(Types("a/b"), ElementsAre("a/b"));
  EXPECT_THAT(Types("a/b;q=0.5, c/d"), ElementsAre("c/d", "a/b"));
  EXPECT_THAT(Types("*/*, a/*, a/b"), ElementsAre("a/b", "a/*", "*/*"));
  EXPECT_THAT(Types("a/b;q=0.1, */*;q=0.2"), ElementsAre("*/*", "a/b"));
  EXPECT_THAT(Types("a/b, c/d"), ElementsAre("a/b", "c/d"));
}

TEST(MediaRangeTest, NothingMeansEverything) {
  EXPECT_THAT(Types(""), ElementsAre("*/*"));
  EXPECT_THAT(Types("  "), ElementsAre("*/*"));
}

TEST(MediaRangeTest, WhatIsNoRangeIsLeftOut) {
  EXPECT_THAT(Types("a, /b, a/, */b, ;q=1, a/b;q=0, c/d"), ElementsAre("c/d"));
  EXPECT_THAT(Types("nonsense"), ElementsAre());
}

TEST(MediaRangeTest, ParametersAreFound) {
  const auto ranges =
      ParseAccept("Application/JSON; as=Table ;v=v1;g=\"meta.k8s.io\";q=0.3;as=Other");
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].type, "application/json");
  EXPECT_EQ(ranges[0].Parameter("as"), "Table");
  EXPECT_EQ(ranges[0].Parameter("g"), "meta.k8s.io");
  EXPECT_EQ(ranges[0].Parameter("q"), "");
  EXPECT_DOUBLE_EQ(ranges[0].quality, 0.3);
  EXPECT_TRUE(ranges[0].Includes("application/json"));
  EXPECT_FALSE(ranges[0].Includes("application/yaml"));
  EXPECT_TRUE(ParseAccept("application/*")[0].Includes("application/yaml"));
  EXPECT_FALSE(ParseAccept("application/*")[0].Includes("text/plain"));
}

TEST(MediaRangeTest, AHeaderOfAbsurdLengthCountsInPart) {
  std::string header;
  for (int i = 0; i < 10'000; ++i) header += "a/b,";
  EXPECT_LE(ParseAccept(header).size(), 64u);
  EXPECT_LE(ParseAccept("a/b" + std::string(50'000, ';') + "x=1").size(), 1u);
}

TEST(MediaRangeTest, KnowsWhoTakesGzip) {
  const auto takes = [](std::string_view header) {
    http::Request request;
    request.headers = {{"accept-encoding", std::string(header)}};
    return AcceptsGzip(request);
  };
  EXPECT_TRUE(takes("gzip"));
  EXPECT_TRUE(takes("deflate, GZIP;q=0.5"));
  EXPECT_FALSE(takes(""));
  EXPECT_FALSE(takes("gzip;q=0"));
  EXPECT_FALSE(takes("gzipped, br"));
}

}  // namespace
}  // namespace berth::apiserver
