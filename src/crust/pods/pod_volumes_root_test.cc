// Volumes that are published for a pod before it has a sandbox, as under an unmodified kubelet.
#include <sys/mount.h>

#include "base/assert_ok.h"
#include "crust/handler_fixture.h"

namespace berth::crust {
namespace {

class PodVolumesTest : public HandlerFixture {
 protected:
  void TearDown() override {
    for (const std::string& bound : bound_) umount2(bound.c_str(), MNT_DETACH);
    HandlerFixture::TearDown();
  }

  std::string Id(const std::string& name) const { return sandbox_ + "-" + name; }

  wire::RuntimePublishVolumeRequest PodRequest(const std::string& volume,
                                               const platform::LoopDevice& device,
                                               const std::string& type) const {
    wire::RuntimePublishVolumeRequest request = PublishRequest(volume, device, type);
    request.clear_sandbox_id();
    request.set_pod_uid(uid_);
    return request;
  }
  base::Status UnpublishForPod(const std::string& volume, const std::string& host_volume_id) {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_pod_uid(uid_);
    request.set_host_volume_id(host_volume_id);
    request.set_host_target_path(Target(volume));
    return client_->RuntimeUnpublishVolume(request, kCallTime).status();
  }

  // The file systems at a path of the host, the topmost last.
  std::vector<std::string> MountedAt(const std::string& path) {
    std::vector<std::string> types;
    const auto table = mounter_->List();
    for (const auto& mount : *table) {
      if (mount.mount_point == path) types.push_back(mount.fs_type + " " + mount.source);
    }
    return types;
  }
  // The kubelet makes another sandbox when one has died.
  void BeAnotherSandbox() { sandbox_ += "n"; }

  void ExpectNothingLeft() {
    EXPECT_EQ(CountIn("data/pods"), 0u);
    EXPECT_EQ(CountIn("run/plans"), 0u);
    EXPECT_EQ(CountIn("data/sandboxes"), 0u);
    EXPECT_EQ(CountIn("run/sandboxes"), 0u);
  }

  std::vector<std::string> bound_;
};

constexpr const char* kPlaceholder = "tmpfs berth-crust";

TEST_F(PodVolumesTest, AContainerHasAVolumeThatWasPublishedBeforeItsSandbox) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  const auto request = PodRequest("pv", device, "ext4");
  ASSERT_OK(Publish(request));
  EXPECT_TRUE(Publish(request).ok());
  EXPECT_THAT(MountedAt(Target("pv")), testing::ElementsAre(kPlaceholder));
  EXPECT_TRUE(IsFree(device)) << "there is no sandbox yet";

  BeginSandbox();
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  EXPECT_EQ(Shell(Id("one"), "echo hello > /data/file").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(Target("pv") + "/file"));

  // The sandbox dies, and the kubelet makes another one.
  Delete(Id("one"));
  Delete(sandbox_);
  BeAnotherSandbox();
  BeginSandbox();
  StartContainer(Id("two"), {{Target("pv"), "/data"}});
  EXPECT_EQ(Shell(Id("two"), "cat /data/file").out, "hello\n");
  Delete(Id("two"));
  EXPECT_FALSE(IsFree(device)) << "the sandbox has it";

  ASSERT_OK(UnpublishForPod("pv", device.path));
  EXPECT_TRUE(IsFree(device));
  EXPECT_THAT(MountedAt(Target("pv")), testing::IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(Target("pv")));
  EXPECT_TRUE(UnpublishForPod("pv", device.path).ok());
  Delete(sandbox_);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace berth::crust
