#include "api/kinds/pod_claims.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

TEST(PodClaimsTest, AVolumeUsesTheClaimThatItNamesOrThatOfItsTemplate) {
  const Pod pod(base::Json::parse(R"({"metadata": {"name": "web"}, "spec": {"volumes": [
      {"name": "own", "persistentVolumeClaim": {"claimName": "data"}},
      {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
      {"name": "empty", "emptyDir": {}}]}})"));
  const auto volumes = pod.volumes();
  EXPECT_EQ(FindClaimName(pod, volumes[0]), "data");
  EXPECT_EQ(FindClaimName(pod, volumes[1]), "web-scratch");
  EXPECT_EQ(FindClaimName(pod, volumes[2]), "");
}

}  // namespace
}  // namespace berth::api
