#include <gtest/gtest.h>

#include <set>

#include "base/ids.h"
#include "base/log.h"
#include "base/status.h"

namespace berth::base {
namespace {

TEST(StatusTest, AnnotationsStandBeforeTheMessage) {
  const Status status = Annotate(Error(StatusCode::kNotFound, "pool '{}'", "x"), "open");
  EXPECT_EQ(ToString(status), "NOT_FOUND: open: pool 'x'");
  EXPECT_TRUE(Annotate(OkStatus(), "open").ok());
}

TEST(QuoteTest, KeepsALineALineAndShort) {
  EXPECT_EQ(Quote("a\nb'c\\"), "'a\\x0ab\\'c\\\\'");
  EXPECT_LT(Quote(std::string(10000, 'x')).size(), 300u);
}

TEST(IdsTest, UuidsAreRandomAndOfVersionFour) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(NewUuid());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen.begin()->size(), 36u);
  EXPECT_EQ((*seen.begin())[14], '4');
}

TEST(IdsTest, DigestsAreThoseOfTheStandard) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Published values of FNV's authors.
TEST(IdsTest, HashesAsFnv) {
  EXPECT_EQ(Fnv1a32(""), 0x811c9dc5U);
  EXPECT_EQ(Fnv1a32("a"), 0xe40c292cU);
  EXPECT_EQ(Fnv1a32("foobar"), 0xbf9cf968U);
  EXPECT_EQ(Fnv1a32("bar", Fnv1a32("foo")), 0xbf9cf968U);
  EXPECT_EQ(Fnv1_32("a"), 0x050c5d7eU);
  EXPECT_EQ(Fnv1_32("foobar"), 0x31f0b262U);
  EXPECT_EQ(Fnv1a64("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(Fnv1a64("foobar"), 0x85944171f73967e8ULL);
}

TEST(IdsTest, SuffixesUseKubernetesLetters) {
  const std::string suffix = RandomSuffix(200);
  EXPECT_EQ(suffix.size(), 200u);
  EXPECT_EQ(suffix.find_first_not_of("bcdfghjklmnpqrstvwxz2456789"), std::string::npos);
}

}  // namespace
}  // namespace berth::base
