#include "http/url.h"

#include <gmock/gmock.h>

namespace berth::http {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(PercentEncodeTest, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(PercentEncode("aZ09-_.~"), "aZ09-_.~");
  EXPECT_EQ(PercentEncode("a b/=\xc3\xbc&%"), "a%20b%2F%3D%C3%BC%26%25");
}

TEST(PercentDecodeTest, ResolvesEscapes) {
  EXPECT_THAT(PercentDecode("a%20b%2F%3d%C3%bc+", false), Optional(std::string("a b/=\xc3\xbc+")));
  EXPECT_THAT(PercentDecode("a+b%2B", true), Optional(std::string("a b+")));
  EXPECT_THAT(PercentDecode("", true), Optional(std::string()));
}

TEST(PercentDecodeTest, RefusesWhatIsNoEscape) {
  for (const char* text : {"%", "a%2", "%zz", "%2g", "%%20", "% 2"}) {
    EXPECT_FALSE(PercentDecode(text, false).has_value()) << text;
  }
}

TEST(PercentDecodeTest, RefusesANulByte) {
  EXPECT_FALSE(PercentDecode("%00", false).has_value());
  EXPECT_FALSE(PercentDecode("passwd%00.txt", true).has_value());
  EXPECT_FALSE(PercentDecode(std::string_view("a\0b", 3), false).has_value());
}

TEST(SplitPathTest, DecodesEachPart) {
  EXPECT_THAT(SplitPath("/a/b%2Fc/d%20e"), Optional(ElementsAre("a", "b/c", "d e")));
  EXPECT_THAT(SplitPath("/a/"), Optional(ElementsAre("a", "")));
  EXPECT_THAT(SplitPath("/"), Optional(ElementsAre("")));
  EXPECT_THAT(SplitPath(""), Optional(ElementsAre()));
  EXPECT_FALSE(SplitPath("/a/%00").has_value());
  EXPECT_FALSE(SplitPath("/%/a").has_value());
}

TEST(QueryTest, KeepsParametersInOrder) {
  const auto query = Query::Parse("a=1&b=x%26y&a=+2&flag&&no=0&never=False");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->Get("a"), "1");
  EXPECT_THAT(query->All("a"), ElementsAre("1", " 2"));
  EXPECT_EQ(query->Get("b"), "x&y");
  EXPECT_EQ(query->Get("other"), "");
  EXPECT_TRUE(query->Has("flag"));
  EXPECT_TRUE(query->Bool("flag"));
  EXPECT_TRUE(query->Bool("a"));
  EXPECT_FALSE(query->Bool("no"));
  EXPECT_FALSE(query->Bool("never"));
  EXPECT_FALSE(query->Bool("other"));
}

TEST(QueryTest, RefusesBadEscapesAndTooManyParameters) {
  for (const char* raw : {"a=%zz", "%=a", "a=%00", "a%00b=1"}) {
    EXPECT_EQ(Query::Parse(raw).status().code(), base::StatusCode::kInvalidArgument) << raw;
  }
  std::string many;
  for (int i = 0; i < 64; ++i) many += "a=1&";
  EXPECT_TRUE(Query::Parse(many).ok());
  EXPECT_FALSE(Query::Parse(many + "a=1").ok());
}

}  // namespace
}  // namespace berth::http
