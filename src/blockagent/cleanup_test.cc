// The volumes that NodeCleanup entries take off this node.
#include <gmock/gmock.h>

#include <algorithm>

#include "blockagent/cleanup_fixture.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using api::CleanupEntry;
using api::FenceEntry;
using base::Error;
using base::Json;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

TEST_F(CleanupTest, ADeadDeviceIsToldInTheFenceAndToThePods) {
  Attach("pv-1");
  AddFence("pv-1");
  AddPod("uid-pv-1");
  on_call_ = [](std::string_view call, const std::string&) {
    return call == "Check" ? base::Error(base::StatusCode::kDataLoss, "its daemon died")
                           : base::OkStatus();
  };
  Open();
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  const Json fence = client_.Peek(api::kinds::kVolumeFence, "", "pv-1");
  const Json device = base::json::Array(fence, {"status", "devices"}).at(0);
  EXPECT_EQ(device["state"], "Quarantined");
  EXPECT_EQ(device["message"], "its daemon died");
  EXPECT_EQ(std::ranges::count(events_.events(), "VolumeQuarantined",
                               &volume::FakeEventSink::Event::reason),
            2);  // of the PersistentVolume, and of the pod
  EXPECT_TRUE(IsMapped("pv-1"));
  // A back end that does not answer says nothing of the device.
  on_call_ = [](std::string_view call, const std::string&) {
    return call == "Check" ? base::Error(base::StatusCode::kUnavailable, "no proxy listens")
                           : base::OkStatus();
  };
  Open();
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  EXPECT_EQ(std::ranges::count(events_.events(), "VolumeQuarantined",
                               &volume::FakeEventSink::Event::reason),
            2);
}

// After a reboot, or after an attachment that failed, nothing of the volume is on this node but the
// lock that a dead process may hold in the storage.
TEST_F(CleanupTest, AVolumeWithoutADeviceIsTakenOffWithoutItsStorage) {
  PutRecord("pv-1", std::nullopt);
  AddFence("pv-1");
  bool away = true;
  int asked = 0;
  on_call_ = [&](std::string_view call, const std::string&) {
    if (call != "FreeFromDead") return base::OkStatus();
    ++asked;
    return away ? Error(StatusCode::kUnavailable, "no monitor answers") : base::OkStatus();
  };
  Open();
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  EXPECT_FALSE(HasFence("pv-1")) << "another node may have the volume";
  // The storage is asked again, until it says that no lock is left.
  ASSERT_TRUE(attachments_->Find("pv-1").has_value());
  EXPECT_EQ(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)).status().code(),
            StatusCode::kUnavailable);
  away = false;
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  EXPECT_FALSE(attachments_->Find("pv-1").has_value());
  EXPECT_EQ(asked, 3);
}

// The I/O proxy could not flush the volume, and this node has no mapping of it any more.
TEST_F(CleanupTest, ALossOfAVolumeWithoutADeviceIsToldUntilAPersonBreaksItsFence) {
  PutRecord("pv-1", std::nullopt);
  AddFence("pv-1");
  bool given_up = false;
  on_call_ = [&](std::string_view call, const std::string&) {
    if (call == "ForceEndUnshown") given_up = true;
    return call == "EndUnshown" && !given_up ? Error(StatusCode::kDataLoss, "it was not flushed")
                                             : base::OkStatus();
  };
  Open();
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
    EXPECT_TRUE(HasFence("pv-1")) << "its fence can be broken";
    ASSERT_TRUE(attachments_->Find("pv-1").has_value());
    const Json fence = client_.Peek(api::kinds::kVolumeFence, "", "pv-1");
    const Json device = base::json::Array(fence, {"status", "devices"}).at(0);
    EXPECT_EQ(device["state"], "Quarantined");
    EXPECT_THAT(device["message"].get<std::string>(), HasSubstr("it was not flushed"));
    EXPECT_GE(std::ranges::count(events_.events(), "VolumeQuarantined",
                                 &volume::FakeEventSink::Event::reason),
              2);  // of the PersistentVolume, and of the pod
    Open();        // the agent is started anew
  }
  EXPECT_FALSE(given_up);
  ASSERT_OK(BreakFence(client_, api::VolumeName("pv-1"), "a person broke it"));
  ASSERT_OK(WorkOff());
  EXPECT_TRUE(given_up);
  EXPECT_FALSE(HasFence("pv-1"));
  EXPECT_FALSE(HasCleanup());
  EXPECT_FALSE(attachments_->Find("pv-1").has_value());
}

TEST_F(CleanupTest, ALossOfAVolumeThatIsOnNoRecordIsGivenUpByAPerson) {
  AddFence("pv-1");
  client_.Add({{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata", {{"name", "pv-1"}}},
               {"spec", {{"flexVolume", {{"options", {{"cluster", "main"}, {"image", "i"}}}}}}}});
  bool given_up = false;
  on_call_ = [&](std::string_view call, const std::string& image) {
    if (call == "ForceEndUnshown") given_up = image == "i";
    return call == "EndUnshown" && !given_up ? Error(StatusCode::kDataLoss, "it was not flushed")
                                             : base::OkStatus();
  };
  Open();
  ASSERT_OK(BreakFence(client_, api::VolumeName("pv-1"), "a person broke it"));
  ASSERT_OK(WorkOff());
  EXPECT_TRUE(given_up);
  EXPECT_FALSE(HasCleanup());
}

// The fence was given back before the I/O proxy said that it could not flush the volume.
TEST_F(CleanupTest, ALossThatNoFenceNamesIsGivenUpByTheNameOfItsNode) {
  AddVolume("pv-1");
  for (const bool recorded : {true, false}) {
    bool given_up = false;
    on_call_ = [&](std::string_view call, const std::string&) {
      if (call == "ForceEndUnshown") given_up = true;
      return call == "EndUnshown" && !given_up ? Error(StatusCode::kDataLoss, "it was not flushed")
                                               : base::OkStatus();
    };
    if (recorded) PutRecordWithoutUses("pv-1");
    Open();
    if (recorded) {
      EXPECT_EQ(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)).status().code(),
                StatusCode::kDataLoss);
      EXPECT_TRUE(std::ranges::any_of(events_.events(), [](const auto& event) {
        return event.reason == "VolumeQuarantined" && event.message.ends_with("--node n1");
      }));
    }
    // Another node's pod waits for the volume.
    AddFence("pv-1", "n2");
    ASSERT_OK(ForceOffNode(client_, api::VolumeName("pv-1"), api::NodeName("n1"), "a person"));
    ASSERT_OK(WorkOff());
    EXPECT_TRUE(given_up);
    EXPECT_TRUE(HasFence("pv-1")) << "it is the other node's";
    EXPECT_FALSE(HasCleanup());
    EXPECT_FALSE(attachments_->Find("pv-1").has_value());
  }
  AddFence("pv-1");
  EXPECT_EQ(ForceOffNode(client_, api::VolumeName("pv-1"), api::NodeName("n1"), "").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ForceOffNode(client_, api::VolumeName("pv-2"), api::NodeName("n1"), "").code(),
            StatusCode::kNotFound);
  EXPECT_FALSE(HasCleanup());
}

// The fence lost the entry of a pod whose volume was never mounted. That the agent takes such a use
// off by force must not give up what an earlier use wrote.
TEST_F(CleanupTest, ALossIsNotGivenUpBecauseTheFenceLostTheUse) {
  PutRecord("pv-1", std::nullopt);
  AddPod("uid-pv-1");
  int forced = 0;
  on_call_ = [&](std::string_view call, const std::string&) {
    if (call == "ForceEndUnshown") ++forced;
    return call == "EndUnshown" ? Error(StatusCode::kDataLoss, "it was not flushed")
                                : base::OkStatus();
  };
  Open();
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  EXPECT_EQ(forced, 0);
  EXPECT_TRUE(HasFence("pv-1")) << "it is written again";
}

// The node reached neither the API nor the storage: the volume goes although both are away, and its
// fence is given back once the API answers.
TEST_F(CleanupTest, AVolumeOfANodeThatIsCutOffIsTakenOffWithoutApiAndStorage) {
  {
    base::MutexLock lock(images_.mutex);
    images_.can_fence = true;
  }
  Attach("pv-1");
  AddFence("pv-1");
  AddPod("uid-pv-1");
  bool away = true;
  on_call_ = [&](std::string_view call, const std::string&) {
    const bool asks = call == "FreeFromDead" || call == "HoldsLock" || call == "FindClients";
    return asks && away ? Error(StatusCode::kUnavailable, "no monitor answers") : base::OkStatus();
  };
  Open();
  const auto movable = attachments_->ListMovableVolumes();
  ASSERT_EQ(movable.size(), 1U);
  EXPECT_TRUE(movable[0].has_device);
  EXPECT_EQ(attachments_->CheckOwnLock("pv-1").code(), StatusCode::kUnavailable);
  client_.SetOutage(Error(StatusCode::kUnavailable, "no route"));
  ASSERT_OK(attachments_->TakeOffCutOff("pv-1", {.on = true, .patience = seconds(1)},
                                        steady_clock::now() + seconds(10)));
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_FALSE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_FALSE(attachments_->ListMovableVolumes()[0].has_device);
  EXPECT_FALSE(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)).ok());
  client_.SetOutage(base::OkStatus());
  away = false;
  EXPECT_TRUE(HasFence("pv-1"));
  attachments_->ReportCutOff("pv-1");
  EXPECT_EQ(
      std::ranges::count(events_.events(), "NodeCutOff", &volume::FakeEventSink::Event::reason),
      2);  // of the PersistentVolume, and of the pod
  ASSERT_OK(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)));
  EXPECT_FALSE(HasFence("pv-1"));
  EXPECT_FALSE(attachments_->Find("pv-1").has_value());
}

// Without locks, and after the fence got lost, only its pod shows that a node has the image mapped.
TEST_F(CleanupTest, AnImageWithoutLocksIsNotMappedBesideAPodThatRunsElsewhere) {
  {
    block::FakeBackend backend(images_, "n1");
    ASSERT_TRUE(backend.Create({.name = "img-pv-1", .size_bytes = 1 << 20}).ok());
    base::MutexLock lock(images_.mutex);
    images_.knows_locks = false;
  }
  client_.Add({{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata", {{"name", "pv-1"}}},
               {"spec",
                {{"accessModes", {"ReadWriteOnce"}},
                 {"claimRef", {{"namespace", "default"}, {"name", "pv-1"}, {"uid", "uid-claim"}}},
                 {"flexVolume",
                  {{"driver", "berth.dev/block"},
                   {"fsType", "btrfs"},
                   {"options", {{"cluster", "main"}, {"image", "img-pv-1"}}}}}}}});
  client_.Add({{"apiVersion", "v1"},
               {"kind", "PersistentVolumeClaim"},
               {"metadata", {{"name", "pv-1"}, {"namespace", "default"}, {"uid", "uid-claim"}}},
               {"spec", {{"volumeName", "pv-1"}}},
               {"status", {{"phase", "Bound"}}}});
  const auto add_pod = [&](const std::string& name, const std::string& node, const Json& status) {
    client_.Add(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", {{"namespace", "default"}, {"name", name}, {"uid", "uid-" + name}}},
         {"spec",
          {{"nodeName", node},
           {"volumes",
            Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "pv-1"}}}}})}}},
         {"status", status}});
  };
  add_pod("mine", "n1", {{"phase", "Pending"}});
  add_pod("other", "n2", {{"phase", "Running"}});
  Open();
  const MountCall call{.mount_dir = "/k/pods/uid-mine/volumes/berth.dev~block/pv-1",
                       .pod_uid = "uid-mine",
                       .pod_namespace = "default",
                       .pod = "mine",
                       .volume = "pv-1",
                       .driver = "berth.dev/block"};
  const base::Status kept = attachments_->Mount(call, steady_clock::now() + seconds(10));
  EXPECT_EQ(kept.code(), StatusCode::kFailedPrecondition) << kept;
  EXPECT_THAT(base::ToString(kept), HasSubstr("(uid-other) on node 'n2'"));
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_FALSE(HasFence("pv-1"));
  EXPECT_THAT(attachments_->ListVolumes(), testing::IsEmpty());
  // It ended; the mount then goes on as far as the back end lets it.
  add_pod("other", "n2", {{"phase", "Succeeded"}});
  on_call_ = [](std::string_view called, const std::string&) {
    return called == "Map" ? Error(StatusCode::kUnavailable, "asked to map") : base::OkStatus();
  };
  Open();
  EXPECT_THAT(base::ToString(attachments_->Mount(call, steady_clock::now() + seconds(10))),
              HasSubstr("asked to map"));
}

TEST_F(CleanupTest, TakesOffWhatIsStillThereAndLetsTheFenceGo) {
  Attach("pv-1");
  AddFence("pv-1");
  Open();
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  const base::Status done = WorkOff();
  ASSERT_TRUE(done.ok()) << base::ToString(done);
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_FALSE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_FALSE(HasFence("pv-1"));
  EXPECT_FALSE(HasCleanup());
}

TEST_F(CleanupTest, LeavesAloneWhatIsRightlyInUseAgain) {
  Attach("pv-1");
  AddFence("pv-1");
  AddPod("uid-pv-1");
  Open();
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  ASSERT_TRUE(WorkOff().ok());
  EXPECT_TRUE(IsMapped("pv-1"));
  EXPECT_TRUE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_TRUE(HasFence("pv-1"));
  EXPECT_FALSE(HasCleanup()) << "the entry no longer applies";
}

TEST_F(CleanupTest, FindsWhatIsOnNoRecord) {
  Attach("pv-1", /*recorded=*/false);
  Open();
  // The PersistentVolume is gone, and another node has the fence.
  AddFence("pv-1", "n2");
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  const base::Status done = WorkOff();
  ASSERT_TRUE(done.ok()) << base::ToString(done);
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_TRUE(HasFence("pv-1")) << "it is the other node's";
}

TEST_F(CleanupTest, WhatIsBusyIsForcedOnlyAfterAWhile) {
  Attach("pv-1");
  AddFence("pv-1");
  on_call_ = [](std::string_view call, const std::string&) {
    return call == "Unmap" ? Error(StatusCode::kFailedPrecondition, "it is open")
                           : base::OkStatus();
  };
  Open();
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  EXPECT_FALSE(WorkOff().ok());
  EXPECT_TRUE(IsMapped("pv-1"));
  EXPECT_TRUE(HasCleanup());
  const Json cleanup = client_.Peek(api::kinds::kNodeCleanup, "", "n1");
  EXPECT_THAT(cleanup["status"]["entries"][0]["message"].get<std::string>(),
              HasSubstr("it is open"));
  // The agent is started anew, with no patience left.
  patience_ = {};
  Open();
  ASSERT_TRUE(WorkOff().ok());
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_FALSE(HasFence("pv-1"));
}

TEST_F(CleanupTest, WhatTheFenceNoLongerNamesIsForcedAtOnce) {
  Attach("pv-1");
  AddFence("pv-1", "n2");
  on_call_ = [](std::string_view call, const std::string&) {
    return call == "Unmap" ? Error(StatusCode::kFailedPrecondition, "it is open")
                           : base::OkStatus();
  };
  Open();
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  ASSERT_TRUE(WorkOff().ok());
  EXPECT_FALSE(IsMapped("pv-1"));
  // The pod gets an event, whichever part of the agent detaches the volume.
  EXPECT_TRUE(std::ranges::any_of(events_.events(), [](const auto& event) {
    return event.object.kind == "Pod" && event.reason == "FenceLost";
  }));
}

TEST_F(CleanupTest, AStrangersMountIsLeft) {
  mounter_.Add(FenceEntryOf("pv-1").mount_dir, "ext4", "/dev/sda1");
  Open();
  ASSERT_TRUE(AddCleanups(client_, "n1", {Entry("pv-1")}).ok());
  const base::Status left = WorkOff();
  EXPECT_THAT(base::ToString(left), HasSubstr("'/dev/sda1'"));
  EXPECT_TRUE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_TRUE(HasCleanup());
}

// Whoever may write a NodeCleanup could else take any volume away by an entry that nobody's fence
// names.
TEST_F(CleanupTest, AnEntryWithTheFolderOfAnotherPodTakesNothingAway) {
  Attach("pv-1");
  AddFence("pv-1");
  AddPod("uid-pv-1");
  Open();
  CleanupEntry entry = Entry("pv-1");
  entry.attachment.pod_uid = "nobody";
  ASSERT_OK(AddCleanups(client_, "n1", {entry}));
  ASSERT_OK(WorkOff());
  EXPECT_TRUE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_TRUE(IsMapped("pv-1"));
  EXPECT_TRUE(HasFence("pv-1"));
  EXPECT_FALSE(HasCleanup());
}

TEST_F(CleanupTest, AnEntryWithTheFolderOfAnotherVolumeTakesNothingAway) {
  Attach("pv-1");
  AddFence("pv-1");
  AddPod("uid-pv-1");
  AddVolume("pv-1");
  Open();
  CleanupEntry entry = Entry("pv-2");
  entry.image = "";
  entry.attachment.mount_dir = FenceEntryOf("pv-1").mount_dir;
  ASSERT_OK(AddCleanups(client_, "n1", {entry}));
  EXPECT_THAT(base::ToString(WorkOff()), HasSubstr("nothing shows that this is the volume"));
  EXPECT_TRUE(mounter_.IsMounted(FenceEntryOf("pv-1").mount_dir));
  EXPECT_TRUE(IsMapped("pv-1"));
  EXPECT_TRUE(HasFence("pv-1"));
}

}  // namespace
}  // namespace berth::blockagent
