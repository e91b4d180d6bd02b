#include "kube/packed_objects.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"

namespace berth::kube {
namespace {

using base::Json;

Json Volume(int i) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata",
           {{"name", fmt::format("pvc-0f3b2c1d-{:012}", i)},
            {"uid", fmt::format("77d1c9e2-0000-4000-8000-{:012}", i)},
            {"resourceVersion", fmt::format("{}", 1000 + i)},
            {"creationTimestamp", "2026-01-01T00:00:00Z"},
            {"annotations", {{"pv.kubernetes.io/provisioned-by", "driver.example.com"}}},
            {"finalizers", {"external-provisioner.volume.kubernetes.io/finalizer"}}}},
          {"spec",
           {{"accessModes", {"ReadWriteOnce"}},
            {"capacity", {{"storage", "1Gi"}}},
            {"csi", {{"driver", "driver.example.com"}, {"volumeHandle", fmt::format("h-{}", i)}}},
            {"storageClassName", "fast"}}},
          {"status", {{"phase", "Bound"}}}};
}

class PackedObjectsTest : public testing::Test {
 protected:
  PackedObjects::ObjectPtr Object(Json json) {
    return std::make_shared<const api::PersistentVolume>(std::move(json));
  }
  int made_ = 0;
  PackedObjects objects_{[this](Json json) -> PackedObjects::ObjectPtr {
                           ++made_;
                           return Object(std::move(json));
                         },
                         2};
};

TEST_F(PackedObjectsTest, GivesBackWhatItWasGiven) {
  std::vector<PackedPtr> kept;
  for (int i = 0; i < 300; ++i) kept.push_back(objects_.KeepObject(Object(Volume(i)), kept.size()));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(kept[i]->version(), fmt::format("{}", 1000 + i));
    EXPECT_EQ(objects_.Get(*kept[i])->json(), Volume(i));
  }
  EXPECT_EQ(made_, 298) << "the first two were never packed";
}

TEST_F(PackedObjectsTest, WhoHoldsAnObjectSharesIt) {
  const PackedPtr kept = objects_.KeepObject(Object(Volume(1)), 10);
  const auto first = objects_.Get(*kept);
  EXPECT_EQ(objects_.Get(*kept), first);
  EXPECT_EQ(made_, 1);
}

TEST_F(PackedObjectsTest, WhateverTheObjectIs) {
  std::vector<Json> odd = {Volume(1), Json::object(), Volume(2)};
  odd.push_back({{"text", std::string(100'000, 'x')}});
  Json deep = 1;
  for (int i = 0; i < 150; ++i) deep = Json{{"a", deep}};
  odd.push_back(deep);
  std::string noise;
  for (int i = 0; i < 5000; ++i) noise += static_cast<char>(32 + (i * 7919) % 90);
  odd.push_back({{"noise", noise}});
  for (const Json& json : odd) {
    const PackedPtr kept = objects_.KeepObject(Object(json), 10);
    EXPECT_EQ(objects_.Get(*kept)->json(), json);
  }
}

}  // namespace
}  // namespace berth::kube
