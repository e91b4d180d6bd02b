#include "base/id.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <type_traits>
#include <unordered_set>

namespace berth::base {
namespace {

using PodUid = Id<struct PodUidKind>;
using NodeName = Id<struct NodeNameKind>;

TEST(IdTest, IdsOfTwoKindsDoNotMix) {
  static_assert(!std::is_convertible_v<PodUid, NodeName>);
  static_assert(!std::is_constructible_v<NodeName, PodUid>);
  static_assert(!std::is_assignable_v<NodeName&, PodUid>);
  static_assert(!std::is_convertible_v<std::string, PodUid>);
  static_assert(!std::is_convertible_v<const char*, PodUid>);
  static_assert(!std::is_convertible_v<PodUid, std::string>);
}

TEST(IdTest, ComparesAndHashesByItsText) {
  const PodUid one("a");
  EXPECT_EQ(one, PodUid(std::string("a")));
  EXPECT_NE(one, PodUid("b"));
  EXPECT_LT(one, PodUid("b"));
  EXPECT_EQ((std::map<PodUid, int>{{one, 7}}).at(PodUid("a")), 7);
  const std::unordered_set<PodUid> ids = {one};
  EXPECT_TRUE(ids.contains(PodUid(std::string_view("a"))));
  EXPECT_FALSE(ids.contains(PodUid("b")));
}

TEST(IdTest, GivesItsTextAndSaysWhetherItIsEmpty) {
  EXPECT_TRUE(PodUid().empty());
  EXPECT_EQ(PodUid(), PodUid(""));
  EXPECT_FALSE(PodUid("a").empty());
  EXPECT_EQ(PodUid("a").text(), "a");
}

TEST(IdTest, StandsInQuotesInAMessageSoThatItCannotForgeALine) {
  EXPECT_EQ(fmt::format("pod {}", PodUid("a")), "pod 'a'");
  EXPECT_EQ(fmt::format("pod {}", PodUid("a\nERROR b")), "pod " + Quote("a\nERROR b"));
  EXPECT_EQ(::testing::PrintToString(PodUid("a")), "'a'");
}

}  // namespace
}  // namespace berth::base
