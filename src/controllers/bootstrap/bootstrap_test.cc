#include "controllers/bootstrap/bootstrap.h"

#include <gtest/gtest.h>

#include "api/kinds.h"
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
  ASSERT_TRUE(kube::MergePatch(client, *storage_class, {{"allowVolumeExpansion", false}}).ok());
  ASSERT_TRUE(CreateStandaloneObjects(client, "local.csi.berth.dev").ok());
  EXPECT_FALSE(kube::Get<api::StorageClass>(client, "", "local")->allow_volume_expansion());
}

}  // namespace
}  // namespace berth::controllers::bootstrap
