// PersistentVolumes of in-tree plugins, which the CSI driver that replaces the plugin attaches.
#include <gmock/gmock.h>

#include "controllers/attacher/attacher.h"
#include "controllers/fake_cluster.h"

namespace berth::controllers::attacher {
namespace {

using base::Json;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Rpc = DriverInfo::Rpc;
using Attachment = api::VolumeAttachment;
using Volume = api::PersistentVolume;

constexpr char kEbs[] = "ebs.csi.aws.com";
constexpr char kGce[] = "pd.csi.storage.gke.io";
constexpr char kEbsFinalizer[] = "external-attacher/ebs-csi-aws-com";

class MigrationTest : public ::testing::Test {
 protected:
  void AddAttacher(const std::string& driver, const std::string& node_id = "i-1") {
    rpc::FakeCsiDriver::Options options;
    options.name = driver;
    options.controller_capabilities.insert(Rpc::LIST_VOLUMES_PUBLISHED_NODES);
    Options fast;
    fast.retry_start = std::chrono::milliseconds(5);
    fast.retry_max = std::chrono::milliseconds(50);
    fast.reconcile_sync = std::chrono::milliseconds(20);
    cluster_.Add<Attacher>(cluster_.AddDriver(options), fast);
    cluster_.Put(MakeCsiNode("node-a", {}, {{"name", driver}, {"nodeID", node_id}}));
    driver_ = driver;
  }

  // The PersistentVolume "pv-1" with the source of a plugin.
  void PutVolume(const std::string& source, Json fields, const Json& more = nullptr) {
    Json volume = MakeVolume("pv-1", {{"spec", {{"csi", nullptr}, {source, std::move(fields)}}}});
    cluster_.Put(Merged(std::move(volume), more));
  }
  // What the driver has.
  void MakeInDriver(const std::string& handle) {
    csi::v1::NodeStageVolumeRequest request;
    request.set_volume_id(handle);
    request.set_staging_target_path(::testing::TempDir());
    request.mutable_volume_capability()->mutable_mount();
    csi::v1::NodeStageVolumeResponse response;
    const base::Status staged = cluster_.driver->state().Handle(request, response);
    ASSERT_TRUE(staged.ok()) << staged;
  }
  void AttachInDriver(const std::string& handle, const std::string& node_id) {
    csi::v1::ControllerPublishVolumeRequest request;
    request.set_volume_id(handle);
    request.set_node_id(node_id);
    request.mutable_volume_capability()->mutable_mount();
    csi::v1::ControllerPublishVolumeResponse response;
    const base::Status attached = cluster_.driver->state().Handle(request, response);
    ASSERT_TRUE(attached.ok()) << attached;
  }
  void PutAttachment(const std::string& name, const Json& more = nullptr) {
    cluster_.Put(Merged({{"apiVersion", "storage.k8s.io/v1"},
                         {"kind", "VolumeAttachment"},
                         {"metadata", {{"name", name}, {"uid", "uid-" + name}}},
                         {"spec",
                          {{"attacher", driver_},
                           {"nodeName", "node-a"},
                           {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                        more));
  }
  // As another program leaves it that has attached the volume.
  static Json AttachedByAnother(const std::string& finalizer, const std::string& node_id) {
    return {{"metadata",
             {{"finalizers", {finalizer}},
              {"annotations", {{std::string(kNodeIdAnnotation), node_id}}}}},
            {"status", {{"attached", true}}}};
  }
  Attachment Get(const std::string& name) { return cluster_.Get<Attachment>("", name); }
  bool WaitError(const std::string& text) {
    return cluster_.WaitUntil(
        [&] { return Get("va").attach_error().find(text) != std::string::npos; });
  }
  rpc::CallScript& script() { return cluster_.driver->script(); }

  FakeCluster cluster_;
  std::string driver_;
};

TEST_F(MigrationTest, AVolumeOfAPluginIsAttachedAndDetachedByTheDriver) {
  AddAttacher(kEbs);
  MakeInDriver("vol-1");
  PutVolume("awsElasticBlockStore",
            {{"volumeID", "aws://us-east-1a/vol-1"}, {"fsType", "xfs"}, {"partition", 2}});
  cluster_.Start();
  PutAttachment("va");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get("va").attached(); }));
  const auto request =
      script().LastRequest<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume");
  EXPECT_EQ(request.volume_id(), "vol-1");
  EXPECT_EQ(request.node_id(), "i-1");
  EXPECT_EQ(request.volume_capability().mount().fs_type(), "xfs");
  EXPECT_THAT(request.volume_context(), UnorderedElementsAre(Pair("partition", "2")));
  const Volume volume = cluster_.Get<Volume>("", "pv-1");
  EXPECT_TRUE(volume.has_finalizer(kEbsFinalizer));
  EXPECT_FALSE(volume.has_csi()) << "the object was translated";
  EXPECT_EQ(volume.String({"spec", "awsElasticBlockStore", "volumeID"}), "aws://us-east-1a/vol-1");

  ASSERT_TRUE(cluster_.client.Delete(Attachment::kInfo, "", "va", {}).ok());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", "va"); }));
  EXPECT_EQ(script()
                .LastRequest<csi::v1::ControllerUnpublishVolumeRequest>("ControllerUnpublishVolume")
                .volume_id(),
            "vol-1");
  EXPECT_TRUE(cluster_.driver->state().FindVolume("vol-1")->attached.empty());
  EXPECT_TRUE(cluster_.HasCounted("Controller/ControllerPublishVolume", "true", 1));
  EXPECT_TRUE(cluster_.HasCounted("Controller/ControllerUnpublishVolume", "true", 1));
  EXPECT_TRUE(cluster_.HasCounted("Controller/ControllerGetCapabilities", "false", 1));
}

TEST_F(MigrationTest, WhatAnotherProgramAttachedIsDetached) {
  AddAttacher(kEbs);
  MakeInDriver("vol-1");
  PutVolume("awsElasticBlockStore", {{"volumeID", "aws:///vol-1"}});
  AttachInDriver("vol-1", "i-1");
  PutAttachment("va", Merged(AttachedByAnother(kEbsFinalizer, "i-1"),
                             {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}}));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", "va"); }));
  EXPECT_TRUE(cluster_.driver->state().FindVolume("vol-1")->attached.empty());
}

TEST_F(MigrationTest, AVolumeThatCannotBeTranslatedIsSaidInTheLibrarysWords) {
  AddAttacher("disk.csi.azure.com");
  PutVolume("azureDisk", {{"diskName", "d"}, {"diskURI", "d"}, {"kind", "Dedicated"}});
  cluster_.Start();
  PutAttachment("va");
  EXPECT_TRUE(
      WaitError("failed to translate in tree pv to CSI: kind(Dedicated) is not supported in csi "
                "migration"))
      << Get("va").attach_error();
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 0);
  EXPECT_FALSE(Get("va").has_finalizer("external-attacher/disk-csi-azure-com"));
}

TEST_F(MigrationTest, TheModesOfAGcePdAreThoseThatThePluginUsed) {
  AddAttacher(kGce);
  MakeInDriver("projects/UNSPECIFIED/zones/us-central1-a/disks/disk-1");
  PutVolume("gcePersistentDisk", {{"pdName", "disk-1"}},
            {{"metadata", {{"labels", {{"topology.kubernetes.io/zone", "us-central1-a"}}}}},
             {"spec", {{"accessModes", {"ReadWriteOnce", "ReadOnlyMany"}}}}});
  cluster_.Start();
  PutAttachment("va");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get("va").attached(); })) << Get("va").attach_error();
  EXPECT_EQ(script()
                .LastRequest<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume")
                .volume_capability()
                .access_mode()
                .mode(),
            csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
}

// The driver lists whole handles, and the translated ones lack the project and perhaps the zone.
TEST_F(MigrationTest, AListOfWholeHandlesAgreesWithTranslatedOnes) {
  const std::string node_id = "projects/p/zones/us-central1-a/instances/node-a";
  const std::string whole = "projects/p/zones/us-central1-a/disks/";
  AddAttacher(kGce, node_id);
  for (const char* disk : {"disk-1", "disk-2"}) {
    MakeInDriver(whole + disk);
    AttachInDriver(whole + disk, node_id);
  }
  PutVolume("gcePersistentDisk", {{"pdName", "disk-1"}});
  const Json attached = AttachedByAnother("external-attacher/pd-csi-storage-gke-io", node_id);
  PutAttachment("va", attached);
  Json of_inline = attached;
  of_inline["spec"]["source"] = {
      {"persistentVolumeName", nullptr},
      {"inlineVolumeSpec",
       {{"accessModes", {"ReadWriteOnce"}},
        {"csi",
         {{"driver", kGce},
          {"volumeHandle", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-2"}}}}}};
  PutAttachment("inline", of_inline);
  cluster_.Start();
  ASSERT_TRUE(script().WaitFor("ListVolumes", 4));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 0);
  EXPECT_EQ(cluster_.events.Count("FailedAttachVolume"), 0) << "one was tried again";
}

TEST_F(MigrationTest, WhatTheDriverLostOfAPluginsVolumesIsAttachedAgain) {
  AddAttacher(kEbs);
  MakeInDriver("vol-1");
  PutVolume("awsElasticBlockStore", {{"volumeID", "vol-1"}});
  PutAttachment("va", AttachedByAnother(kEbsFinalizer, "i-1"));
  cluster_.Start();
  EXPECT_TRUE(script().WaitFor("ControllerPublishVolume"));
}

}  // namespace
}  // namespace berth::controllers::attacher
