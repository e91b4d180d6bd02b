// Attachments against what the driver says in ListVolumes.
#include <gmock/gmock.h>

#include "controllers/attacher/attacher_table_fixture.h"

namespace berth::controllers::attacher {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using Rpc = DriverInfo::Rpc;
using Attachment = api::VolumeAttachment;

class ReconcileTest : public ::testing::Test {
 protected:
  void Begin(bool tells = true, int max_entries = 0) {
    Options options = Fast();
    options.max_entries = max_entries;
    Add(options, tells);
    cluster_.Put(MakeCsiNode("node-a"));
    for (int i = 1; i <= 3; ++i) {
      const std::string volume = fmt::format("pv-{}", i);
      cluster_.AddVolume(volume);
      cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                    {"kind", "VolumeAttachment"},
                    {"metadata", {{"name", fmt::format("va-{}", i)}}},
                    {"spec",
                     {{"attacher", "fake.csi.example.com"},
                      {"nodeName", "node-a"},
                      {"source", {{"persistentVolumeName", volume}}}}}});
    }
    cluster_.Start();
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      return Get("va-1").attached() && Get("va-2").attached() && Get("va-3").attached();
    }));
  }

  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    options.reconcile_sync = std::chrono::milliseconds(20);
    return options;
  }
  // Adds the attacher of a driver that `tells` to which nodes its volumes are published.
  void Add(const Options& options, bool tells = true) {
    rpc::FakeCsiDriver::Options driver;
    if (tells) driver.controller_capabilities.insert(Rpc::LIST_VOLUMES_PUBLISHED_NODES);
    cluster_.Add<Attacher>(cluster_.AddDriver(driver), options);
  }
  // A volume with an attachment that an earlier attacher held, with this status.
  void PutHeld(const Json& status, const Json& more = nullptr) {
    cluster_.Put(MakeCsiNode("node-a"));
    cluster_.AddVolume("pv-1");
    cluster_.Put(AttachmentOfVolume1(Both(Held(), Merged({{"status", status}}, more))));
  }

  rpc::CallScript& script() { return cluster_.driver->script(); }
  Attachment Get(const std::string& name = "va") { return cluster_.Get<Attachment>("", name); }
  bool Published(const std::string& handle) {
    const auto volume = cluster_.driver->state().FindVolume(handle);
    return volume.has_value() && volume->attached.contains("id-of-node-a");
  }
  // As an administrator does in the storage system.
  void DetachBehindItsBack(const std::string& handle) {
    csi::v1::ControllerUnpublishVolumeRequest request;
    request.set_volume_id(handle);
    csi::v1::ControllerUnpublishVolumeResponse response;
    ASSERT_TRUE(cluster_.driver->state().Handle(request, response).ok());
  }
  void AttachBehindItsBack(const std::string& handle) {
    csi::v1::ControllerPublishVolumeRequest request;
    request.set_volume_id(handle);
    request.set_node_id("id-of-node-a");
    request.mutable_volume_capability()->mutable_mount();
    csi::v1::ControllerPublishVolumeResponse response;
    ASSERT_TRUE(cluster_.driver->state().Handle(request, response).ok());
  }
  bool WaitForLists(int more) {
    return script().WaitFor("ListVolumes", script().Count("ListVolumes") + more);
  }

  FakeCluster cluster_;
};

TEST_F(ReconcileTest, WhatTheDriverLostIsPublishedAgain) {
  Begin();
  DetachBehindItsBack("vol-2");
  ASSERT_TRUE(script().WaitFor("ControllerPublishVolume", 4));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Published("vol-2"); }));
  EXPECT_TRUE(Get("va-2").attached());
}

TEST_F(ReconcileTest, WhatAgreesIsLeftAlone) {
  Begin();
  ASSERT_TRUE(WaitForLists(3));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 3);
}

TEST_F(ReconcileTest, AllPagesAreRead) {
  Begin(true, 1);
  DetachBehindItsBack("vol-3");
  ASSERT_TRUE(script().WaitFor("ControllerPublishVolume", 4));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Published("vol-3"); }));
  ASSERT_TRUE(WaitForLists(6));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 4);
  const auto requests = script().Requests<csi::v1::ListVolumesRequest>("ListVolumes");
  EXPECT_EQ(requests[0].max_entries(), 1);
  EXPECT_EQ(requests[0].starting_token(), "");
  EXPECT_EQ(requests[1].starting_token(), "vol-1");
}

TEST_F(ReconcileTest, AListThatFailsTellsNothing) {
  Begin(true, 1);
  script().Fail("ListVolumes", Error(StatusCode::kAborted, "the token is of yesterday"),
                rpc::CallScript::kAlways);
  ASSERT_TRUE(WaitForLists(3));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 3);
  EXPECT_EQ(script().Count("ControllerUnpublishVolume"), 0);
}

TEST_F(ReconcileTest, ADriverThatDoesNotTellItsNodesIsNotAsked) {
  Begin(false);
  DetachBehindItsBack("vol-1");
  // Five periods.
  EXPECT_FALSE(script().WaitFor("ListVolumes", 1, std::chrono::milliseconds(100)));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 3);
}

TEST_F(ReconcileTest, WhatIsPublishedStillAfterItWasLetGoIsUnpublished) {
  Begin();
  Attachment attachment = Get("va-1");
  attachment.mutable_json()["metadata"]["finalizers"] = {"example.com/hold"};
  attachment.mutable_json()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  attachment.mutable_json()["status"] = {{"attached", false}};
  cluster_.Put(attachment);
  ASSERT_TRUE(script().WaitFor("ControllerUnpublishVolume", 1));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !Published("vol-1"); }));
}

TEST_F(ReconcileTest, WhatCannotBePublishedAgainIsTriedUntilItCan) {
  Begin();
  script().Fail("ControllerPublishVolume", Error(StatusCode::kInternal, "no"), 3);
  DetachBehindItsBack("vol-1");
  ASSERT_TRUE(script().WaitFor("ControllerPublishVolume", 7));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Published("vol-1"); }));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Get("va-1").attach_error().empty(); }));
}

TEST_F(ReconcileTest, TheFirstComparisonIsAtTheStart) {
  Options seldom = Fast();
  seldom.reconcile_sync = std::chrono::hours(1);
  Add(seldom);
  PutHeld({{"attached", true}});
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Published("vol-1"); }));
}

TEST_F(ReconcileTest, WhatCannotBePublishedAgainIsTriedOnceForEachList) {
  Options seldom = Fast();
  seldom.reconcile_sync = std::chrono::hours(1);
  Add(seldom);
  PutHeld({{"attached", true}});
  script().Fail("ControllerPublishVolume", Error(StatusCode::kInternal, "no"),
                rpc::CallScript::kAlways);
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().attach_error().empty(); }));
  EXPECT_TRUE(Get().attached());
  // Many times the longest backoff.
  EXPECT_FALSE(script().WaitFor("ControllerPublishVolume", 2, std::chrono::milliseconds(500)));
}

TEST_F(ReconcileTest, AListThatSaysPublishedEndsTheBackoffOfAnAttachmentOnItsWay) {
  Options patient = Fast();
  patient.retry_start = patient.retry_max = std::chrono::minutes(10);
  Add(patient);
  PutHeld({{"attached", false}});
  script().Fail("ControllerPublishVolume", Error(StatusCode::kInternal, "no"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().attach_error().empty(); }));
  AttachBehindItsBack("vol-1");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Get().attached(); }));
  EXPECT_EQ(Get().attach_error(), "");
}

TEST_F(ReconcileTest, AListThatSaysUnpublishedEndsTheBackoffOfADetachment) {
  Options patient = Fast();
  patient.retry_start = patient.retry_max = std::chrono::minutes(10);
  Add(patient);
  PutHeld({{"attached", true}}, Deleting());
  AttachBehindItsBack("vol-1");
  script().Fail("ControllerUnpublishVolume", Error(StatusCode::kInternal, "no"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().detach_error().empty(); }));
  DetachBehindItsBack("vol-1");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", "va"); }));
}

}  // namespace
}  // namespace berth::controllers::attacher
