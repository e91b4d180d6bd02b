// A volume of the driver belongs to one PersistentVolume, before and after the copy shows the
// object.
#include "controllers/provisioner/volume_handles.h"

#include "controllers/provisioner/indexes.h"
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

class VolumeHandlesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddProvisionerIndexes(volumes_);
    volumes_.AddHandler([this](const auto& change) {
      if (change.after == nullptr) {
        handles_.ReleaseVolume(*change.before);
      } else {
        handles_.NoteShown(*change.after);
      }
    });
    cluster_.Start();
  }
  void TearDown() override { cluster_.Stop(); }

  std::string Assign(const std::string& handle, const std::string& volume) {
    return handles_.AssignHandle(api::VolumeHandle(handle), kDriver, api::VolumeName(volume));
  }
  // Adds a PersistentVolume, and waits until the copy shows it.
  void Show(const std::string& name, const Json& spec) {
    cluster_.Put(MakeVolume(name, {{"spec", spec}}));
    ASSERT_NE(volumes_.Get(name), nullptr);
  }
  static Json Csi(const std::string& driver, const std::string& handle) {
    return {{"csi", {{"driver", driver}, {"volumeHandle", handle}}}};
  }
  bool WaitForgotten() {
    return cluster_.WaitUntil([&] { return handles_.size() == 0; });
  }

  FakeCluster cluster_;
  kube::Informer<Volume>& volumes_ = cluster_.informers.Of<Volume>();
  VolumeHandles handles_{volumes_};
};

TEST_F(VolumeHandlesTest, AHandleWithoutAnObjectBelongsToTheFirst) {
  EXPECT_EQ(Assign("vol-1", "pv-a"), "");
  EXPECT_EQ(Assign("vol-1", "pv-b"), "pv-a");
  EXPECT_EQ(Assign("vol-1", "pv-a"), "");
  handles_.ReleaseHandle(api::VolumeHandle("vol-1"));
  EXPECT_EQ(Assign("vol-1", "pv-b"), "");
}

TEST_F(VolumeHandlesTest, AnObjectThatTheCopyShowsIsEnough) {
  ASSERT_EQ(Assign("vol-1", "pv-a"), "");
  ASSERT_EQ(handles_.size(), 1);
  Show("pv-a", Csi(kDriver, "vol-1"));
  EXPECT_TRUE(WaitForgotten());
  EXPECT_EQ(Assign("vol-1", "pv-b"), "pv-a");
  // The claim is asked for once more, and nothing is remembered anew.
  EXPECT_EQ(Assign("vol-1", "pv-a"), "");
  EXPECT_EQ(handles_.size(), 0);
}

TEST_F(VolumeHandlesTest, WhenTheObjectIsGoneTheHandleIsFree) {
  ASSERT_EQ(Assign("vol-1", "pv-a"), "");
  Show("pv-a", Csi(kDriver, "vol-1"));
  cluster_.client.Remove(Volume::kInfo, "", "pv-a");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return volumes_.Get("pv-a") == nullptr; }));
  EXPECT_EQ(Assign("vol-1", "pv-b"), "");
}

// Objects that do not show under the driver's handle leave it to the memory.
TEST_F(VolumeHandlesTest, AnObjectWithAnotherSourceIsNotEnough) {
  ASSERT_EQ(Assign("vol-1", "pv-a"), "");
  Show("pv-a", Csi("other.example.com", "vol-1"));
  ASSERT_EQ(Assign("vol-2", "pv-b"), "");
  Show("pv-b", Csi(kDriver, "vol-3"));
  ASSERT_EQ(Assign("vol-4", "pv-c"), "");
  Show("pv-c", {{"awsElasticBlockStore", {{"volumeID", "vol-of-aws"}}}, {"csi", nullptr}});
  ASSERT_EQ(Assign("vol-5", "pv-d"), "");
  Show("pv-d", Csi(kDriver, "vol-5"));
  // The handlers see the objects in order.
  ASSERT_TRUE(cluster_.WaitUntil([&] { return handles_.size() == 3; }));
  EXPECT_EQ(Assign("vol-1", "pv-x"), "pv-a");
  EXPECT_EQ(Assign("vol-2", "pv-x"), "pv-b");
  EXPECT_EQ(Assign("vol-4", "pv-x"), "pv-c");
  cluster_.client.Remove(Volume::kInfo, "", "pv-c");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return handles_.size() == 2; }));
}

}  // namespace
}  // namespace berth::controllers::provisioner
