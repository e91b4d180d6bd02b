// Volumes of in-tree plugins, which the CSI driver that replaces the plugin expands.
#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/resizer/resizer.h"

namespace berth::controllers::resizer {
namespace {

using base::Json;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

constexpr char kEbs[] = "ebs.csi.aws.com";

class MigrationTest : public ::testing::Test {
 protected:
  void AddResizer(const std::string& driver) {
    rpc::FakeCsiDriver::Options options;
    options.name = driver;
    options.node_capabilities = {};
    Options fast;
    fast.workers = 1;  // claims are handled in the order in which they come
    fast.retry_start = std::chrono::milliseconds(5);
    fast.retry_max = std::chrono::milliseconds(50);
    cluster_.Add<Resizer>(cluster_.AddDriver(options), fast);
  }
  // The PersistentVolume "pv-CLAIM" of a plugin, and the claim, which asks for 2Gi.
  void PutPair(const std::string& claim, const Json& source, const std::string& resizer) {
    Json volume = MakeVolume("pv-" + claim, BoundVolume(claim));
    volume["spec"].erase("csi");
    cluster_.Put(Merged(volume, {{"spec", source}}));
    Json more = BoundClaim("pv-" + claim);
    more["spec"]["resources"]["requests"]["storage"] = "2Gi";
    if (!resizer.empty()) more["metadata"]["annotations"][std::string(kStorageResizer)] = resizer;
    cluster_.Put(MakeClaim(claim, more));
  }
  // A volume of the driver; returns its handle.
  std::string MakeInDriver(const std::string& name) {
    cluster_.AddVolume(name);
    return cluster_.Get<Volume>("", name).csi().volume_handle();
  }
  static Json Ebs(const std::string& handle) {
    return {{"awsElasticBlockStore", {{"volumeID", "aws://us-east-1a/" + handle}}}};
  }
  bool WaitSize(const std::string& claim) {
    return cluster_.WaitUntil(
        [&] { return cluster_.Get<Claim>("default", claim).capacity() == "2Gi"; });
  }
  rpc::CallScript& script() { return cluster_.driver->script(); }

  FakeCluster cluster_;
};

TEST_F(MigrationTest, AVolumeOfAPluginIsExpandedByTheDriverThatTheClaimNames) {
  AddResizer(kEbs);
  const std::string handle = MakeInDriver("any");
  PutPair("data", Ebs(handle), kEbs);
  cluster_.Start();
  ASSERT_TRUE(WaitSize("data"));
  EXPECT_EQ(script()
                .LastRequest<csi::v1::ControllerExpandVolumeRequest>("ControllerExpandVolume")
                .volume_id(),
            handle);
  const Volume volume = cluster_.Get<Volume>("", "pv-data");
  EXPECT_EQ(volume.capacity(), "2Gi");
  ASSERT_FALSE(volume.has_csi()) << "the object was translated";
  EXPECT_EQ(volume.json()["spec"]["awsElasticBlockStore"], Ebs(handle)["awsElasticBlockStore"]);
  EXPECT_TRUE(cluster_.HasCounted("Controller/ControllerExpandVolume", "true", 1));
}

TEST_F(MigrationTest, OneThatNoDriverWasNamedForIsLeftAlone) {
  AddResizer(kEbs);
  const std::string handle = MakeInDriver("any");
  const std::string second = MakeInDriver("second");
  cluster_.Start();
  PutPair("unnamed", Ebs(handle), "");
  PutPair("of-plugin", Ebs(handle), "kubernetes.io/aws-ebs");
  PutPair("of-another", {{"gcePersistentDisk", {{"pdName", "d"}}}}, kEbs);
  PutPair("data", Ebs(second), kEbs);
  ASSERT_TRUE(WaitSize("data"));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 1);
  // The annotation comes when kube-controller-manager has seen the request.
  Claim claim = cluster_.Get<Claim>("default", "unnamed");
  claim.set_annotation(kStorageResizer, kEbs);
  cluster_.Put(claim);
  EXPECT_TRUE(WaitSize("unnamed"));
}

TEST_F(MigrationTest, AVolumeThatCannotBeTranslatedIsSaid) {
  AddResizer("disk.csi.azure.com");
  PutPair("data", {{"azureDisk", {{"diskName", "d"}, {"diskURI", "d"}, {"kind", "Dedicated"}}}},
          "disk.csi.azure.com");
  cluster_.Start();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning VolumeResizeFailed default/data: resize volume \"pv-data\" by resizer "
      "\"disk.csi.azure.com\" failed: failed to translate persistent volume: kind(Dedicated) is "
      "not supported in csi migration"));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 0);
}

}  // namespace
}  // namespace berth::controllers::resizer
