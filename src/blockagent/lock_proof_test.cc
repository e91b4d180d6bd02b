// A lock that is not there breaks a fence only if it would be seen, and a back end whose locks stay
// on the node is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert_ok.h"
#include "block/fake_backend.h"
#include "blockagent/attachments.h"
#include "blockagent/fake_rights.h"
#include "blockagent/lock_watch.h"
#include "kube/fake_client.h"
#include "kube/informers/informers.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

constexpr char kUid[] = "0b5c6a2e-3a0c-4f3e-9d7c-1f6f2c6a7e11";

// The agent of node n1 wants a volume that the fence gives to a pod of node n2. That pod, its Node
// and its Lease are gone, and the image has no lock.
class LockProofTest : public testing::Test {
 protected:
  LockProofTest() {
    ServeBlockKinds(client_);
    client_.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
                 {"kind", "StorageCluster"},
                 {"metadata", {{"name", "main"}, {"uid", kUid}}},
                 {"spec", {{"backend", {{"images", {{"folder", "/srv"}}}}}}}});
    client_.Add({{"apiVersion", "v1"},
                 {"kind", "PersistentVolume"},
                 {"metadata", {{"name", "pv-1"}}},
                 {"spec",
                  {{"accessModes", {"ReadWriteOnce"}},
                   {"claimRef", {{"namespace", "default"}, {"name", "data"}, {"uid", "uid-data"}}},
                   {"flexVolume",
                    {{"driver", "berth.dev/block"},
                     {"fsType", "ext4"},
                     {"options", {{"cluster", "main"}, {"image", "img-1"}}}}}}}});
    client_.Add({{"apiVersion", "v1"},
                 {"kind", "PersistentVolumeClaim"},
                 {"metadata", {{"name", "data"}, {"namespace", "default"}, {"uid", "uid-data"}}},
                 {"spec", {{"volumeName", "pv-1"}}},
                 {"status", {{"phase", "Bound"}}}});
    client_.Add(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", {{"name", "new"}, {"namespace", "default"}, {"uid", "uid-new"}}},
         {"spec",
          {{"nodeName", "n1"},
           {"volumes",
            Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}})}}}});
    auto opened = Attachments::Open(
        {.node = "n1",
         .data_folder = folder_.path(),
         .kubelet_folder = "/k",
         .consumers = {.lease_time = std::chrono::milliseconds(0)}},
        {.client = client_,
         .exec = exec_,
         .mounter = mounter_,
         .events = events_,
         .clock = clock_,
         .make_backend = [this](const Json&) -> base::StatusOr<std::unique_ptr<block::Backend>> {
           auto backend = std::make_unique<block::FakeBackend>(images_, "n1");
           backend->OnCall([this](std::string_view call, const std::string& argument) {
             if (call == "ExchangeLocks" || call == "ProveLocks") EXPECT_EQ(argument, kUid);
             if (call == "Fence") {
               fenced_while_named_.push_back(FencedNode());
               if (!fence_fails_.ok()) return fence_fails_;
             }
             if (const auto act = std::exchange(at_call_[std::string(call)], nullptr)) act();
             // These tests are not about devices.
             return call == "Map" && !maps_
                        ? Error(StatusCode::kUnavailable, "as far as the device")
                        : base::OkStatus();
           });
           return std::unique_ptr<block::Backend>(std::move(backend));
         }});
    EXPECT_TRUE(opened.ok()) << opened.status();
    attachments_ = *std::move(opened);
    EXPECT_TRUE(block::FakeBackend(images_, "operator")
                    .Create({.name = "img-1", .size_bytes = 1 << 20})
                    .ok());
  }

  // The fence names a pod of node n2, as at the beginning or again.
  void AddFence() {
    api::VolumeFence fence(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                                {"kind", "VolumeFence"},
                                {"metadata", {{"name", "pv-1"}}}});
    fence.set_entries({{.node = "n2",
                        .pod_namespace = "default",
                        .pod = "old",
                        .pod_uid = "uid-old",
                        .mount_dir = "/k/pods/uid-old/volumes/berth.dev~block/pv-1",
                        .cluster_name = "main"}});
    client_.Add(fence.json());
  }
  base::Status Mount() {
    return attachments_->Mount({.mount_dir = "/k/pods/uid-new/volumes/berth.dev~block/pv-1",
                                .pod_uid = "uid-new",
                                .pod_namespace = "default",
                                .pod = "new",
                                .volume = "pv-1",
                                .driver = "berth.dev/block"},
                               steady_clock::now() + std::chrono::seconds(60));
  }
  std::string FencedNode() const {
    const auto fence = client_.Peek<api::VolumeFence>("", "pv-1");
    return fence.has_value() && !fence->entries().empty() ? fence->entries()[0].node : "";
  }
  bool WaitForEvent(const std::string& reason, const std::string& message) const {
    const auto deadline = steady_clock::now() + std::chrono::seconds(20);
    while (steady_clock::now() < deadline) {
      for (const auto& event : events_.events()) {
        if (event.object.kind == "StorageCluster" && event.reason == reason &&
            event.message == message) {
          return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Whether a LockWatch records this event for the StorageCluster.
  bool WatchTells(const std::string& reason, const std::string& message) {
    kube::Informers informers(client_);
    LockWatch watch({.node = "n1"}, events_, informers.OfOptional<api::StorageCluster>(),
                    *attachments_);
    informers.OfOptional<api::StorageCluster>().AddHandler(
        [&](const auto& change) { watch.QueueCluster(change.key); });
    watch.Start();
    informers.Start();
    const bool told = WaitForEvent(reason, message);
    informers.Stop();
    watch.Stop();
    return told;
  }
  void Refuse(const base::Status& why) {
    base::MutexLock lock(images_.mutex);
    images_.exchange = why;
  }

  const platform::TempFolder folder_;
  base::FakeClock clock_;
  kube::FakeClient client_{clock_};
  volume::FakeMounter mounter_;
  volume::FakeExec exec_;
  volume::FakeEventSink events_;
  block::FakeImages images_;
  base::Status fence_fails_;
  // What happens once, when the agent makes that call of the back end.
  std::map<std::string, std::function<void()>> at_call_;
  bool maps_ = false;                            // whether Map succeeds
  std::vector<std::string> fenced_while_named_;  // what the VolumeFence named first at each Fence
  std::unique_ptr<Attachments> attachments_;
};

// The same with a storage that fences nodes itself. Node n2 has the image mapped, and holds its
// lock.
class StorageFenceTest : public LockProofTest {
 protected:
  StorageFenceTest() {
    {
      base::MutexLock lock(images_.mutex);
      images_.can_fence = true;
    }
    EXPECT_TRUE(block::FakeBackend(images_, "n2").Map("img-1", {}).ok());
    AddFence();
  }
  std::vector<std::string> Fenced() {
    base::MutexLock lock(images_.mutex);
    return images_.fenced["n2"];
  }
};

TEST_F(StorageFenceTest, ADeletedNodeIsFencedWhileTheVolumeFenceNamesThisOne) {
  EXPECT_THAT(std::string(base::Message(Mount())), HasSubstr("as far as the device"));
  EXPECT_EQ(FencedNode(), "n1");
  EXPECT_THAT(Fenced(), testing::SizeIs(1));
  EXPECT_THAT(fenced_while_named_, testing::ElementsAre("n1"));
}

// This agent is frozen between its look at the VolumeFence and its fence. Meanwhile node n2 gets
// the volume by right, and maps it anew.
TEST_F(StorageFenceTest, ANodeThatGotTheVolumeBackByRightKeepsItsNewClient) {
  block::FakeBackend other(images_, "n2");
  at_call_["Fence"] = [&] {
    ASSERT_OK(other.Unmap({.image = "img-1"}));
    AddFence();
    ASSERT_OK(other.Map("img-1", {}));
  };
  static_cast<void>(Mount());
  EXPECT_THAT(Fenced(), testing::ElementsAre("img-1#1"));
  EXPECT_TRUE(other.FindMapping("img-1")->has_value());
  EXPECT_THAT(*other.FindClients("img-1", api::NodeName("n2")), testing::ElementsAre("img-1#2"));
}

TEST_F(StorageFenceTest, ANodeThatGetsTheVolumeBackWhileItsClientsAreListedIsNotFenced) {
  block::FakeBackend other(images_, "n2");
  at_call_["FindClients"] = [&] {
    ASSERT_OK(other.Unmap({.image = "img-1"}));
    AddFence();
    ASSERT_OK(other.Map("img-1", {}));
  };
  EXPECT_EQ(Mount().code(), StatusCode::kAborted);
  EXPECT_THAT(Fenced(), testing::IsEmpty());
  EXPECT_TRUE(other.FindMapping("img-1")->has_value());
}

TEST_F(StorageFenceTest, NothingIsMountedIfTheVolumeFenceNamesAnotherNodeAfterTheMap) {
  maps_ = true;
  at_call_["Map"] = [&] { AddFence(); };
  const base::Status refused = Mount();
  EXPECT_EQ(refused.code(), StatusCode::kAborted) << refused;
  EXPECT_THAT(mounter_.requests(), testing::IsEmpty());
  EXPECT_FALSE(block::FakeBackend(images_, "n1").FindMapping("img-1")->has_value());
  EXPECT_EQ(FencedNode(), "n2");
}

TEST_F(StorageFenceTest, AFenceThatFailsKeepsTheImageUnmappedUntilItHolds) {
  fence_fails_ = Error(StatusCode::kUnavailable, "no monitor answers");
  for (int i = 0; i < 2; ++i) {
    const base::Status refused = Mount();
    EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(base::Message(refused)),
                HasSubstr("fence node 'n2' from image 'img-1': no monitor answers"));
    EXPECT_TRUE(Fenced().empty());
  }
  fence_fails_ = base::OkStatus();
  EXPECT_THAT(std::string(base::Message(Mount())), HasSubstr("as far as the device"));
  EXPECT_THAT(Fenced(), testing::SizeIs(1));
}

TEST_F(StorageFenceTest, APodThatIsThereKeepsItsVolumeAndItsClient) {
  client_.Add({{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata", {{"name", "old"}, {"namespace", "default"}, {"uid", "uid-old"}}},
               {"spec", {{"nodeName", "n2"}}}});
  EXPECT_EQ(Mount().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(FencedNode(), "n2");
  EXPECT_THAT(fenced_while_named_, testing::IsEmpty());
}

TEST_F(StorageFenceTest, ANodeThatIsThereIsNotFencedByAnAgent) {
  client_.Add({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n2"}}}});
  const base::Status refused = Mount();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("node.kubernetes.io/unreachable"));
  EXPECT_THAT(fenced_while_named_, testing::IsEmpty());
}

TEST_F(StorageFenceTest, ANodeIsNotFencedFromAnImageThatAnotherVolumeNames) {
  client_.Add({{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata", {{"name", "pv-2"}}},
               {"spec",
                {{"flexVolume",
                  {{"driver", "berth.dev/block"},
                   {"options", {{"cluster", "other"}, {"image", "img-1"}}}}}}}});
  const base::Status refused = Mount();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)),
              HasSubstr("PersistentVolume 'pv-2' names image 'img-1', too"));
  EXPECT_THAT(fenced_while_named_, testing::IsEmpty());
}

TEST_F(StorageFenceTest, AnImageOfThatNameInAnotherStorageKeepsNoNodeFromBeingFenced) {
  client_.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
               {"kind", "StorageCluster"},
               {"metadata", {{"name", "other"}}},
               {"spec", {{"backend", {{"images", {{"folder", "/elsewhere"}}}}}}}});
  client_.Add({{"apiVersion", "v1"},
               {"kind", "PersistentVolume"},
               {"metadata", {{"name", "pv-2"}}},
               {"spec",
                {{"flexVolume",
                  {{"driver", "berth.dev/block"},
                   {"options", {{"cluster", "other"}, {"image", "img-1"}}}}}}}});
  EXPECT_THAT(std::string(base::Message(Mount())), HasSubstr("as far as the device"));
  EXPECT_THAT(Fenced(), testing::SizeIs(1));
}

TEST_F(StorageFenceTest, ANodeThatTheVolumeFenceNamesAgainIsNotFenced) {
  // Readers share the volume; an old use of n2 is still owed, and a new one is there by right.
  auto volume = client_.Peek<api::PersistentVolume>("", "pv-1")->json();
  volume["spec"]["accessModes"] = {"ReadOnlyMany"};
  volume["spec"]["flexVolume"]["readOnly"] = true;
  client_.Add(volume);
  auto fence = *client_.Peek<api::VolumeFence>("", "pv-1");
  auto entries = fence.entries();
  api::CleanupEntry owed{.volume = "pv-1", .attachment = entries[0], .cluster_name = "main"};
  owed.attachment.pod_uid = "uid-older";
  entries[0].read_only = true;
  fence.set_entries(entries);
  client_.Add(fence.json());
  api::NodeCleanup cleanup(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                                {"kind", "NodeCleanup"},
                                {"metadata", {{"name", "n2"}}}});
  cleanup.set_entries({owed});
  client_.Add(cleanup.json());
  static_cast<void>(Mount());
  EXPECT_EQ(client_.Peek<api::VolumeFence>("", "pv-1")->entries().size(), 2U);
  EXPECT_THAT(fenced_while_named_, testing::IsEmpty());
}

TEST_F(LockProofTest, AFenceBreaksIfALockOfItsNodeWouldBeSeen) {
  AddFence();
  EXPECT_THAT(std::string(base::Message(Mount())), HasSubstr("as far as the device"));
  EXPECT_EQ(FencedNode(), "n1");
}

TEST_F(LockProofTest, AFenceStaysIfNoLockOfItsNodeWasEverSeen) {
  {
    base::MutexLock lock(images_.mutex);
    images_.unseen = {"n2"};
  }
  AddFence();
  const base::Status refused = Mount();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)),
              HasSubstr("cannot tell whether it still writes to the image (no lock of node 'n2'"));
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("out-of-service"));
  EXPECT_EQ(FencedNode(), "n2");
}

TEST_F(LockProofTest, AFolderWhoseLocksStayOnTheNodeIsRefusedBeforeTheFenceIsTaken) {
  Refuse(Error(StatusCode::kFailedPrecondition, "NFS is mounted with nolock"));
  const base::Status refused = Mount();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)),
              HasSubstr("StorageCluster 'main': NFS is mounted with nolock"));
  EXPECT_EQ(FencedNode(), "");
  EXPECT_FALSE(attachments_->Find("pv-1").has_value());
}

TEST_F(LockProofTest, AFullShareKeepsNoPodFromItsVolume) {
  Refuse(Error(StatusCode::kResourceExhausted, "the share has no room"));
  EXPECT_THAT(std::string(base::Message(Mount())), HasSubstr("as far as the device"));
  EXPECT_EQ(FencedNode(), "n1");
}

TEST_F(LockProofTest, TheStorageClusterTellsThatLocksCannotBeShown) {
  Refuse(Error(StatusCode::kResourceExhausted, "the share has no room"));
  EXPECT_TRUE(
      WatchTells("LocksNotShown", "node 'n1' cannot show or note locks: the share has no room"));
}

TEST_F(LockProofTest, TheStorageClusterTellsWhichNodeKeepsItsLocksToItself) {
  Refuse(Error(StatusCode::kFailedPrecondition, "NFS is mounted with nolock"));
  EXPECT_TRUE(
      WatchTells("LocksNotShared", "node 'n1' cannot use its volumes: NFS is mounted with nolock"));
}

}  // namespace
}  // namespace berth::blockagent
