#include "volume/csi/selinux.h"

#include <gtest/gtest.h>

namespace berth::volume::csi_volume {
namespace {

Json Container(const std::string& name, const Json& options, const std::string& volume = "data") {
  Json out = {{"name", name}, {"volumeMounts", {{{"name", volume}, {"mountPath", "/x"}}}}};
  if (!options.is_null()) out["securityContext"] = {{"seLinuxOptions", options}};
  return out;
}

api::Pod Pod(const Json& pod_options, const std::vector<Json>& containers,
             const Json& more = Json::object()) {
  Json spec = {{"containers", containers},
               {"volumes",
                {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "c"}}}},
                 {{"name", "again"}, {"persistentVolumeClaim", {{"claimName", "c"}}}}}}};
  if (!pod_options.is_null()) spec["securityContext"]["seLinuxOptions"] = pod_options;
  spec.merge_patch(more);
  return api::Pod({{"metadata", {{"name", "web"}}}, {"spec", spec}});
}

VolumeSpec Spec(const api::Pod& pod) { return {.name = "data", .pod_volume = pod.volumes()[0]}; }

TEST(MountContext, IsMadeOfThePodsLevel) {
  const api::Pod pod = Pod({{"level", "s0:c1,c2"}}, {Container("a", nullptr)});
  EXPECT_EQ(*FindMountContext(pod, Spec(pod)), "system_u:object_r:container_file_t:s0:c1,c2");
}

TEST(MountContext, AContainersOptionsStandInPlaceOfThePods) {
  const api::Pod pod =
      Pod({{"level", "s0:c1,c2"}},
          {Container("a",
                     {{"user", "staff_u"}, {"role", "r"}, {"type", "spc_t"}, {"level", "s0:c3"}})});
  EXPECT_EQ(*FindMountContext(pod, Spec(pod)), "staff_u:object_r:container_file_t:s0:c3");
}

TEST(MountContext, IsNoneWhereNobodyKnowsTheLevelOrThePodWantsItsFilesRelabelled) {
  for (const api::Pod& pod :
       {Pod(nullptr, {Container("a", nullptr)}), Pod({{"type", "t"}}, {Container("a", nullptr)}),
        Pod({{"level", "s0"}}, {Container("a", nullptr)},
            {{"securityContext", {{"seLinuxChangePolicy", "Recursive"}}}})}) {
    EXPECT_EQ(*FindMountContext(pod, Spec(pod)), "") << pod.json();
  }
}

TEST(MountContext, OnlyContainersThatUseTheVolumeCountAlsoByAnotherNameOfTheClaim) {
  const api::Pod others =
      Pod({{"level", "s0:c1"}},
          {Container("a", nullptr), Container("b", {{"level", "s0:c9"}}, "elsewhere")});
  EXPECT_EQ(*FindMountContext(others, Spec(others)), "system_u:object_r:container_file_t:s0:c1");
  const api::Pod both = Pod({{"level", "s0:c1"}}, {Container("a", nullptr),
                                                   Container("b", {{"level", "s0:c9"}}, "again")});
  EXPECT_EQ(FindMountContext(both, Spec(both)).status().code(),
            base::StatusCode::kFailedPrecondition);
}

TEST(FileLabelFor, IsWhatAllContainersAskForAlsoWhereTheFilesAreToKeepTheirOwn) {
  const Json recursive = {{"securityContext", {{"seLinuxChangePolicy", "Recursive"}}}};
  const api::Pod one = Pod({{"level", "s0:c1"}}, {Container("a", nullptr)}, recursive);
  EXPECT_EQ(FindFileLabel(one, Spec(one)), "system_u:object_r:container_file_t:s0:c1");
  const api::Pod two =
      Pod({{"level", "s0:c1"}}, {Container("a", nullptr), Container("b", {{"level", "s0:c9"}})},
          recursive);
  EXPECT_EQ(FindFileLabel(two, Spec(two)), "");
  const api::Pod none = Pod(nullptr, {Container("a", nullptr)});
  EXPECT_EQ(FindFileLabel(none, Spec(none)), "");
}

TEST(NamesLabel, AlsoWithoutALevelAndOnlyOfThoseThatUseTheVolume) {
  const auto names = [](const api::Pod& pod) { return NamesLabel(pod, Spec(pod)); };
  EXPECT_TRUE(names(Pod({{"type", "t"}}, {Container("a", nullptr)})));
  EXPECT_TRUE(names(Pod(nullptr, {Container("a", {{"type", "t"}})})));
  EXPECT_FALSE(names(
      Pod(nullptr, {Container("a", nullptr), Container("b", {{"level", "s0"}}, "elsewhere")})));
}

}  // namespace
}  // namespace berth::volume::csi_volume
