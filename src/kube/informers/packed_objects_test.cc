#include "kube/informers/packed_objects.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"

namespace berth::kube {
namespace {

using base::Json;

Json NumberedVolume(int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata",
           {{"name", fmt::format("pvc-0f3b2c1d-0000-4000-8000-{:012}", i)},
            {"uid", fmt::format("77d1c9e2-0000-4000-8000-{:012}", i)},
            {"resourceVersion", fmt::format("{}", 1000 + i)}}},
          {"spec", {{"storageClassName", "fast"}}}};
}

class PackedObjectsTest : public testing::Test {
 protected:
  PackedObject KeepVolume(int i) { return objects_.KeepObject(api::Object(NumberedVolume(i))); }

  int made_ = 0;
  PackedObjects objects_{[this](Json json) -> PackedObjects::ObjectPtr {
    ++made_;
    return std::make_shared<const api::PersistentVolume>(std::move(json));
  }};
};

TEST_F(PackedObjectsTest, GivesBackWhatItWasGiven) {
  std::vector<PackedObject> kept;
  for (int i = 0; i < 300; ++i) kept.push_back(KeepVolume(i));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(kept[i].version(), fmt::format("{}", 1000 + i));
    EXPECT_EQ(objects_.Get(kept[i])->json(), NumberedVolume(i));
  }
}

TEST_F(PackedObjectsTest, AnObjectThatIsReadAgainSoonIsNotUnpackedAgain) {
  const PackedObject kept = KeepVolume(1);
  const auto first = objects_.Get(kept);
  objects_.Get(KeepVolume(2));
  EXPECT_EQ(objects_.Get(kept), first);
  EXPECT_EQ(made_, 2);
}

TEST_F(PackedObjectsTest, AfterManyOthersItIsUnpackedAgain) {
  const PackedObject kept = KeepVolume(1);
  objects_.Get(kept);
  for (int i = 2; i < 200; ++i) objects_.Get(KeepVolume(i));
  EXPECT_EQ(made_, 199);
  EXPECT_EQ(objects_.Get(kept)->json(), NumberedVolume(1));
  EXPECT_EQ(made_, 200);
}

}  // namespace
}  // namespace berth::kube
