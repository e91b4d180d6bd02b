#include "api/quantity.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::StatusCode;

TEST(QuantityTest, ParsesEverySuffix) {
  const std::pair<std::string_view, int64_t> cases[] = {
      {"0", 0},
      {"7", 7},
      {"+7", 7},
      {"1Ki", 1024},
      {"1Mi", 1 << 20},
      {"1Gi", 1 << 30},
      {"1k", 1000},
      {"1M", 1000000},
      {"1.5Gi", 3 << 29},
      {".5Gi", 1 << 29},
      {"5.Gi", 5ll << 30},
      {"1e3", 1000},
      {"1E3", 1000},
      {"1E", 1'000'000'000'000'000'000},
      {"12e-1", 2},
      {"1Ei", 1ll << 60},
      {"1Pi", 1ll << 50},
      {"1Ti", 1ll << 40},
      {"2T", 2'000'000'000'000},
      {"3P", 3'000'000'000'000'000},
      {"1e+2", 100},
      {"7.999Ei", 9222219115350168962},
      {"9223372036854775807", 9223372036854775807}};
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseBytes(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(QuantityTest, RoundsUpWhatIsNoWholeByte) {
  EXPECT_EQ(ParseBytes("1m").value(), 1);
  EXPECT_EQ(ParseBytes("1500m").value(), 2);
  EXPECT_EQ(ParseBytes("1n").value(), 1);
  EXPECT_EQ(ParseBytes("0.0000000000001").value(), 1);
  EXPECT_EQ(ParseBytes("0.1Ki").value(), 103);
  EXPECT_EQ(Quantity::Parse("-1500m")->value(), -2);
}

TEST(QuantityTest, RefusesWhatIsNoQuantity) {
  for (const std::string_view text :
       {"", "Gi", "1 Gi", "1gi", "1GiB", "1..5", "1.2.3", "--1", "1e", "1e+", "1eGi", "0x10", "1Zi",
        ".", "+", "1ki", "\xff", "1e99999999"}) {
    EXPECT_EQ(Quantity::Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(Quantity::Parse(std::string(100, '1')).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseBytes("-1Gi").status().code(), StatusCode::kInvalidArgument);
}

TEST(QuantityTest, RefusesWhatOverflows64Bits) {
  for (const std::string_view text :
       {"8Ei", "9223372036854775808", "1e19", "10E", "9223372036854775807.1",
        "99999999999999999999999999999999999999999", "1e999", "9007199254740992Ki"}) {
    EXPECT_EQ(Quantity::Parse(text).status().code(), StatusCode::kOutOfRange) << text;
  }
}

TEST(QuantityTest, PrintsTheCanonicalFormOfTheFormatThatWasGiven) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"1024Mi", "1Gi"},   {"1.5Gi", "1536Mi"}, {"1000M", "1G"},   {"1500M", "1500M"},
      {"0.5", "500m"},     {"1e9", "1e9"},      {"1000e3", "1e6"}, {"1Ki", "1Ki"},
      {"1000", "1k"},      {"0Gi", "0"},        {"1536", "1536"},  {"0.5Ki", "512"},
      {"-1024Ki", "-1Mi"}, {"1025", "1025"},    {"3e-3", "3e-3"}};
  for (const auto& [text, canonical] : cases) {
    EXPECT_EQ(ToCanonicalQuantity(text).value_or("?"), canonical) << text;
  }
}

TEST(QuantityTest, FormatsBytesAsKubernetesDoes) {
  EXPECT_EQ(FormatBytes(1073741824), "1Gi");
  EXPECT_EQ(FormatBytes(1073741825), "1073741825");
  EXPECT_EQ(FormatBytes(1000), "1k");
  EXPECT_EQ(FormatBytes(1024), "1Ki");
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(10ll << 40), "10Ti");
}

TEST(QuantityTest, ComparesByValue) {
  EXPECT_EQ(CompareQuantities("1Gi", "1024Mi").value(), 0);
  EXPECT_LT(CompareQuantities("1G", "1Gi").value(), 0);
  EXPECT_GT(CompareQuantities("2", "1500m").value(), 0);
  EXPECT_EQ(CompareQuantities("x", "1").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::api
