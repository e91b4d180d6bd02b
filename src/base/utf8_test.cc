#include "base/utf8.h"

#include <gtest/gtest.h>

namespace berth::base {
namespace {

std::string Encoded(uint32_t code) {
  std::string out;
  AppendUtf8(out, code);
  return out;
}

TEST(Utf8Test, ReadsWhatItWrites) {
  size_t length = 1;
  for (const uint32_t last : {0x7fU, 0x7ffU, 0xffffU, 0x10ffffU}) {
    const std::string text = Encoded(last);
    EXPECT_EQ(text.size(), length);
    EXPECT_EQ(Utf8Length(text), length) << last;
    EXPECT_TRUE(IsUtf8("a" + text + "b"));
    EXPECT_EQ(CountCharacters("a" + text + "b"), 3u);
    ++length;
  }
}

TEST(Utf8Test, RefusesWhatIsNone) {
  for (const std::string_view text :
       {"\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_EQ(Utf8Length(text), 0u);
    EXPECT_FALSE(IsUtf8(text));
  }
  EXPECT_TRUE(IsUtf8(""));
}

TEST(Utf8Test, CutsBetweenCharacters) {
  const std::string text = "a" + Encoded(0x20ac) + "b";  // five bytes
  EXPECT_EQ(CharacterEnd(text, 5), 5u);
  EXPECT_EQ(CharacterEnd(text, 4), 4u);
  EXPECT_EQ(CharacterEnd(text, 3), 1u);
  EXPECT_EQ(CharacterEnd(text, 2), 1u);
  EXPECT_EQ(CharacterEnd(text, 0), 0u);
}

}  // namespace
}  // namespace berth::base
