#include "controllers/blockoperator/claim_plan.h"

#include <gtest/gtest.h>

#include "controllers/claims.h"
#include "controllers/fake_cluster.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;

const Json kCluster = {{"metadata", {{"name", "pool"}}},
                       {"spec", {{"backend", {{"images", {{"folder", "/srv/pool"}}}}}}}};

Json Class(const Json& more = nullptr) {
  return Merged(MakeClass("fast", {{"provisioner", "block.berth.dev"},
                                   {"parameters", {{"cluster", "pool"}}}}),
                more);
}

base::StatusOr<Plan> PlanOf(const Json& claim_more, const Json& class_more = nullptr,
                            const Json& cluster_more = nullptr) {
  return MakePlan(api::PersistentVolumeClaim(MakeClaim("data", claim_more)),
                  api::StorageClass(Class(class_more)),
                  api::StorageCluster(Merged(kCluster, cluster_more)));
}

TEST(ClaimPlanTest, AnImageOfTheClaimsSizeAndAVolumeThatNamesIt) {
  const auto plan = PlanOf(nullptr);
  ASSERT_TRUE(plan.ok()) << base::ToString(plan.status());
  EXPECT_EQ(plan->image.name, "pvc-uid-data");
  EXPECT_EQ(plan->image.size_bytes, int64_t{1} << 30);
  const auto volume =
      VolumeObject(*plan, api::PersistentVolumeClaim(MakeClaim("data")), api::StorageClass(Class()),
                   {.name = "pvc-uid-data.lun", .size_bytes = int64_t{2} << 30});
  EXPECT_EQ(volume.name(), "pvc-uid-data");
  EXPECT_EQ(volume.capacity(), "2Gi") << "what the back end made counts";
  EXPECT_EQ(volume.reclaim_policy(), "Delete");
  EXPECT_TRUE(volume.has_finalizer(kImageFinalizer));
  EXPECT_EQ(volume.json()["spec"]["flexVolume"],
            (Json{{"driver", "berth.dev/block"},
                  {"fsType", "ext4"},
                  {"options", {{"cluster", "pool"}, {"image", "pvc-uid-data.lun"}}}}))
      << "the back end may give the image a longer name";
  EXPECT_FALSE(volume.json()["spec"].contains("nodeAffinity"));
}

TEST(ClaimPlanTest, TheLeastThatAFileSystemTakesIsMade) {
  const auto plan = PlanOf({{"spec", {{"resources", {{"requests", {{"storage", "1Mi"}}}}}}}},
                           {{"parameters", {{"fsType", "xfs"}}}});
  ASSERT_TRUE(plan.ok()) << base::ToString(plan.status());
  EXPECT_GT(plan->image.size_bytes, int64_t{64} << 20);
}

TEST(ClaimPlanTest, NodesAreThoseOfTheClassAndOfTheCluster) {
  const auto plan =
      PlanOf(nullptr,
             {{"allowedTopologies",
               {{{"matchLabelExpressions", {{{"key", "zone"}, {"values", {"a", "b"}}}}}}}}},
             {{"spec", {{"nodeSelector", {{"disk", "fast"}}}}}});
  ASSERT_TRUE(plan.ok()) << base::ToString(plan.status());
  const auto volume = VolumeObject(*plan, api::PersistentVolumeClaim(MakeClaim("data")),
                                   api::StorageClass(Class()), {.name = "i", .size_bytes = 1});
  const auto reaches = [&](const Json& labels) {
    return VolumeReachableFrom(volume,
                               api::Node(MakeNode("n", {{"metadata", {{"labels", labels}}}})));
  };
  EXPECT_TRUE(reaches({{"zone", "b"}, {"disk", "fast"}}));
  EXPECT_FALSE(reaches({{"zone", "c"}, {"disk", "fast"}}));
  EXPECT_FALSE(reaches({{"zone", "a"}, {"disk", "slow"}}));
}

struct Refusal {
  const char* name;
  Json claim;
  Json storage_class;
  const char* says;
};

TEST(ClaimPlanTest, WhatCannotBeIsRefusedWithWhatToDo) {
  const Refusal kRefusals[] = {
      {"a raw device", {{"spec", {{"volumeMode", "Block"}}}}, nullptr, "ask for Filesystem"},
      {"a selector",
       {{"spec", {{"selector", {{"matchLabels", {{"a", "b"}}}}}}}},
       nullptr,
       "take spec.selector out"},
      {"no access mode", {{"spec", {{"accessModes", Json::array()}}}}, nullptr, "no access mode"},
      {"an access mode of tomorrow",
       {{"spec", {{"accessModes", {"ReadSometimes"}}}}},
       nullptr,
       "'ReadSometimes'"},
      {"one pod and more",
       {{"spec", {{"accessModes", {"ReadWriteOncePod", "ReadWriteOnce"}}}}},
       nullptr,
       "together"},
      {"readers of nothing",
       {{"spec", {{"accessModes", {"ReadOnlyMany"}}}}},
       nullptr,
       "nobody could ever fill"},
      {"a size that is none",
       {{"spec", {{"resources", {{"requests", {{"storage", "much"}}}}}}}},
       nullptr,
       "storage request"},
      {"no cluster", nullptr, {{"parameters", {{"cluster", nullptr}}}}, "'cluster'"},
      {"a parameter with a typing error",
       nullptr,
       {{"parameters", {{"fstpye", "xfs"}}}},
       "'fstpye' is not known"},
      {"two file systems",
       nullptr,
       {{"parameters", {{"fsType", "xfs"}, {"csi.storage.k8s.io/fstype", "xfs"}}}},
       "twice"},
      {"a file system that is a path",
       nullptr,
       {{"parameters", {{"fsType", "../ext4"}}}},
       "'../ext4'"},
      {"an empty file system", nullptr, {{"parameters", {{"fsType", ""}}}}, "no type"},
      {"mount options", nullptr, {{"mountOptions", {"noatime"}}}, "mountOptions"},
  };
  for (const Refusal& refusal : kRefusals) {
    const auto plan = PlanOf(refusal.claim, refusal.storage_class);
    ASSERT_FALSE(plan.ok()) << refusal.name;
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << refusal.name;
    EXPECT_NE(base::ToString(plan.status()).find(refusal.says), std::string::npos)
        << refusal.name << ": " << base::ToString(plan.status());
  }
}

}  // namespace
}  // namespace berth::controllers::blockoperator
