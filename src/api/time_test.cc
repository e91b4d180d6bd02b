#include "api/time.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::WallTime;
using std::chrono::hours;
using std::chrono::seconds;

TEST(TimeTest, FormatsUtcBySecondAndMicrosecond) {
  const WallTime time = WallTime(seconds(1767225599)) + std::chrono::nanoseconds(123456789);
  EXPECT_EQ(FormatTime(time), "2025-12-31T23:59:59Z");
  EXPECT_EQ(FormatMicroTime(time), "2025-12-31T23:59:59.123456Z");
  EXPECT_EQ(FormatTime(WallTime()), "1970-01-01T00:00:00Z");
}

TEST(TimeTest, ParsesOffsetsAndFractions) {
  const WallTime noon(seconds(1767268800));
  EXPECT_EQ(ParseTime("2026-01-01T12:00:00Z").value(), noon);
  EXPECT_EQ(ParseTime("2026-01-01T14:30:00+02:30").value(), noon);
  EXPECT_EQ(ParseTime("2026-01-01T04:00:00-08:00").value(), noon);
  EXPECT_EQ(ParseTime("2026-01-01T12:00:00.25Z").value(), noon + std::chrono::milliseconds(250));
  EXPECT_EQ(ParseTime("2024-02-29T00:00:00Z").value(), WallTime(seconds(1709164800)));
}

TEST(TimeTest, RefusesWhatIsNoTime) {
  for (const std::string_view text :
       {"", "2026-01-01", "2026-01-01T12:00:00", "2026-13-01T12:00:00Z", "2026-02-30T12:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T12:00:00Zx", "2026-01-01T12:00:00.Z",
        "2026-01-01 12:00:00Z", "2026-01-01T12:00:00.1234567890Z", "9999-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z", "2026-1-1T1:1:1Z"}) {
    EXPECT_FALSE(ParseTime(text).ok()) << text;
  }
}

TEST(TimeTest, AgesReadAsInKubectl) {
  const std::pair<int64_t, std::string_view> cases[] = {
      {-5, "<invalid>"},  {-1, "0s"},       {0, "0s"},           {119, "119s"},
      {120, "2m"},        {125, "2m5s"},    {599, "9m59s"},      {600, "10m"},
      {10799, "179m"},    {10800, "3h"},    {11160, "3h6m"},     {28800, "8h"},
      {172799, "47h"},    {172800, "2d"},   {187200, "2d4h"},    {691200, "8d"},
      {63071999, "729d"}, {63072000, "2y"}, {63936000, "2y10d"}, {252288000, "8y"}};
  for (const auto& [age, text] : cases) EXPECT_EQ(FormatAge(seconds(age)), text) << age;
}

TEST(TimeTest, AgeOfAnAbsentTimeIsUnknown) {
  const WallTime now(seconds(1767268800));
  EXPECT_EQ(AgeSince("2026-01-01T11:00:00Z", now), "60m");
  EXPECT_EQ(AgeSince("", now), "<unknown>");
  EXPECT_EQ(AgeSince("soon", now), "<unknown>");
}

}  // namespace
}  // namespace berth::api
