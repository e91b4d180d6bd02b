#include "kube/informers/object_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::kube {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> KeysUnder(const ObjectIndex& index, std::string_view value) {
  std::vector<std::string> found;
  for (const ObjectIndex::Key* key : index.FindKeys(value)) found.emplace_back(*key);
  return found;
}

TEST(ObjectIndexTest, FindsTheKeysUnderAValueInTheirOrder) {
  const ObjectIndex::Key a = "ns/a", b = "ns/b", c = "ns/c";
  ObjectIndex index(std::pmr::get_default_resource());
  index.Insert("fast", c);
  index.Insert("slow", b);
  index.Insert("fast", a);
  index.Insert("slow", a);
  index.Insert("fast", a);
  EXPECT_THAT(KeysUnder(index, "fast"), ElementsAre("ns/a", "ns/c"));
  EXPECT_THAT(KeysUnder(index, "slow"), ElementsAre("ns/a", "ns/b"));
  EXPECT_THAT(KeysUnder(index, ""), IsEmpty());
}

TEST(ObjectIndexTest, ForgetsAnObjectUnderOneValueAlone) {
  const ObjectIndex::Key a = "ns/a", b = "ns/b";
  ObjectIndex index(std::pmr::get_default_resource());
  index.Insert("fast", a);
  index.Insert("fast", b);
  index.Insert("slow", a);
  index.Erase("fast", a);
  index.Erase("slow", b);
  EXPECT_THAT(KeysUnder(index, "fast"), ElementsAre("ns/b"));
  EXPECT_THAT(KeysUnder(index, "slow"), ElementsAre("ns/a"));
}

}  // namespace
}  // namespace berth::kube
