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

}  // namespace
}  // namespace berth::base
