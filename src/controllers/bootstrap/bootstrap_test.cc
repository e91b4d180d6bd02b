#include "controllers/bootstrap/bootstrap.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::controllers::bootstrap {
namespace {

TEST(BootstrapTest, MakesADefaultClassAndKeepsWhatAPersonChanged) {
  kube::FakeClient client;
  ASSERT_TRUE(CreateStandaloneObjects(client, "local.csi.berth.dev").ok());
  auto storage_class = kube::Get<api::StorageClass>(client, "", "local");
  ASSERT_TRUE(storage_class.ok());
  EXPECT_EQ(storage_class->provisioner(), "local.csi.berth.dev");
  EXPECT_TRUE(storage_class->wait_for_first_consumer());
  EXPECT_TRUE(kube::Get<api::CsiDriver>(client, "", "local.csi.berth.dev")->storage_capacity())
      << "its room is published";
  ASSERT_TRUE(kube::MergePatch(client, *storage_class, {{"allowVolumeExpansion", false}}).ok());
  ASSERT_TRUE(CreateStandaloneObjects(client, "local.csi.berth.dev").ok());
  EXPECT_FALSE(kube::Get<api::StorageClass>(client, "", "local")->allow_volume_expansion());
}

TEST(BootstrapTest, ADriverObjectOfAnEarlierVersionGetsInlineVolumes) {
  kube::FakeClient client;
  client.Add({{"apiVersion", "storage.k8s.io/v1"},
              {"kind", "CSIDriver"},
              {"metadata", {{"name", "local.csi.berth.dev"}}},
              {"spec",
               {{"attachRequired", true},
                {"fsGroupPolicy", "None"},
                {"volumeLifecycleModes", {"Persistent"}}}}});
  ASSERT_TRUE(CreateStandaloneObjects(client, "local.csi.berth.dev").ok());
  const auto driver = kube::Get<api::CsiDriver>(client, "", "local.csi.berth.dev");
  ASSERT_TRUE(driver.ok());
  EXPECT_TRUE(driver->supports_lifecycle("Ephemeral"));
  EXPECT_TRUE(driver->pod_info_on_mount());
  EXPECT_EQ(driver->fs_group_policy(), "None") << "what a person chose stays";
  client.TakeActions();
  ASSERT_TRUE(CreateStandaloneObjects(client, "local.csi.berth.dev").ok());
  for (const std::string& action : client.TakeActions()) {
    EXPECT_EQ(action.find("delete"), std::string::npos) << action;
  }
}

}  // namespace
}  // namespace berth::controllers::bootstrap
