#include "base/text.h"

#include <gtest/gtest.h>

namespace berth::base {
namespace {

TEST(TextTest, TakesPathsApart) {
  EXPECT_EQ(FolderOf("/a/b/c"), "/a/b");
  EXPECT_EQ(FolderOf("/a"), "/");
  EXPECT_EQ(FolderOf("a"), ".");
  EXPECT_EQ(FileNameOf("/a/b/c"), "c");
  EXPECT_EQ(FileNameOf("c"), "c");
  EXPECT_EQ(FileNameOf("/a/"), "");
}

TEST(TextTest, TrimsSlashesButNotTheRoot) {
  EXPECT_EQ(TrimSlashes("/a/b//"), "/a/b");
  EXPECT_EQ(TrimSlashes("/a"), "/a");
  EXPECT_EQ(TrimSlashes("//"), "/");
  EXPECT_EQ(TrimSlashes(""), "");
}

TEST(TextTest, DecodesOnlyAWholePercentEscape) {
  EXPECT_EQ(DecodePercentEscape("%2Fx"), '/');
  EXPECT_EQ(DecodePercentEscape("%c3"), '\xc3');
  EXPECT_EQ(DecodePercentEscape("%00"), '\0');
  for (const char* text : {"", "a", "%", "%2", "%zz", "%2g", "%g2", "2F%"}) {
    EXPECT_FALSE(DecodePercentEscape(text).has_value()) << text;
  }
}

TEST(TextTest, PathsOfFieldsStayShort) {
  EXPECT_EQ(ExtendFieldPath("spec", ".x"), "spec.x");
  EXPECT_EQ(ExtendFieldPath("", "x"), "x");
  const std::string name(5000, 'k');
  const std::string cut = ExtendFieldPath("spec.", name);
  EXPECT_EQ(cut, "spec." + name.substr(0, 1019) + "...");
  EXPECT_EQ(ExtendFieldPath(cut, "[0]"), cut);
  // A character of several bytes is not cut.
  EXPECT_EQ(ExtendFieldPath(name.substr(0, 1023), "\u00e9\u00e9\u00e9"),
            name.substr(0, 1023) + "...");
}

}  // namespace
}  // namespace berth::base
