// Tests what the deletion of a StorageCluster takes off the nodes.
#include "blockagent/cluster_cleanup.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "blockagent/cleanup_fixture.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

class ClusterCleanupTest : public CleanupTest {
 protected:
  void DeleteCluster() {
    ASSERT_TRUE(client_.Delete(api::kinds::kStorageCluster, "", "main", {}).ok());
  }
  void WaitFor(const std::string& state) {
    const auto deadline = steady_clock::now() + seconds(20);
    while (base::json::String(StatusOfNode(), {"state"}) != state) {
      ASSERT_LT(steady_clock::now(), deadline) << StatusOfNode();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
};

TEST_F(ClusterCleanupTest, ForcesAllVolumesOffAndSaysSo) {
  Attach("pv-1");
  Attach("pv-2");
  AddFence("pv-1");
  AddFence("pv-2");
  AddFence("pv-3");  // of which this node has nothing
  AddPod("uid-pv-1");
  Open();
  ClusterCleanup cleanup("n1", agent_, *attachments_);
  cleanup.Start();
  cleanup.QueueCluster("main");
  DeleteCluster();
  cleanup.QueueCluster("main");
  WaitFor("Clean");
  for (const char* volume : {"pv-1", "pv-2", "pv-3"}) EXPECT_FALSE(HasFence(volume)) << volume;
  EXPECT_FALSE(IsMapped("pv-1"));
  EXPECT_FALSE(IsMapped("pv-2"));
  EXPECT_EQ(StatusOfNode()["volumes"][0]["state"], "Forced");
}

TEST_F(ClusterCleanupTest, AVolumeThatHangsHoldsUpNoOther) {
  Attach("pv-1");
  Attach("pv-2");
  AddFence("pv-1");
  AddFence("pv-2");
  std::atomic<bool> hangs = true;
  on_call_ = [&](std::string_view call, const std::string& image) {
    return call == "ForceUnmap" && image == "img-pv-1" && hangs
               ? Error(StatusCode::kDeadlineExceeded, "the back end does not answer")
               : base::OkStatus();
  };
  Open();
  DeleteCluster();
  ClusterCleanup cleanup("n1", agent_, *attachments_);
  cleanup.Start();
  cleanup.QueueCluster("main");
  WaitFor("Cleaning");
  const auto deadline = steady_clock::now() + seconds(20);
  while (HasFence("pv-2") || StatusOfNode()["volumes"].size() != 2) {
    ASSERT_LT(steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(HasFence("pv-1"));
  EXPECT_THAT(StatusOfNode()["volumes"][0]["message"].get<std::string>(),
              HasSubstr("does not answer"));
  hangs = false;
  WaitFor("Clean");
}

// The pod of the last use is gone, and the proxy's answer came only after its fence was given back.
TEST_F(ClusterCleanupTest, GivesUpWhatAVolumeWithoutADeviceCouldNotFlush) {
  PutRecordWithoutUses("pv-1");
  bool given_up = false;
  on_call_ = [&](std::string_view call, const std::string&) {
    if (call == "ForceEndUnshown") given_up = true;
    return call == "EndUnshown" ? Error(StatusCode::kDataLoss, "it was not flushed")
                                : base::OkStatus();
  };
  Open();
  EXPECT_EQ(attachments_->Reconcile("pv-1", steady_clock::now() + seconds(10)).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(std::ranges::count(events_.events(), "VolumeQuarantined",
                               &volume::FakeEventSink::Event::reason),
            1);
  ASSERT_OK(attachments_->TakeAllOff("pv-1", {.on = true}, steady_clock::now() + seconds(10)));
  EXPECT_TRUE(given_up);
  EXPECT_FALSE(attachments_->Find("pv-1").has_value());
}

}  // namespace
}  // namespace berth::blockagent
