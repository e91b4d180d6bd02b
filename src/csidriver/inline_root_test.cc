// Inline (ephemeral) volumes of the shipped driver.
#include <sys/mount.h>

#include <thread>

#include "csidriver/driver_fixture.h"

namespace berth::csidriver {
namespace {

using ::testing::HasSubstr;

class InlineVolumeRootTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    std::filesystem::create_directories(PodFolder());
  }

  // As the CO makes it, and removes it after NodeUnpublishVolume.
  std::string PodFolder() const {
    return kubelet_ + "/pods/uid-1/volumes/kubernetes.io~csi/scratch";
  }
  std::string Mount() const { return PodFolder() + "/mount"; }

  base::Status PublishInline(const std::map<std::string, std::string>& attributes = {},
                             bool read_only = false) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(handle_);
    request.set_target_path(Mount());
    *request.mutable_volume_capability() = capability_;
    request.set_readonly(read_only);
    auto& context = *request.mutable_volume_context();
    context["csi.storage.k8s.io/ephemeral"] = "true";
    context["csi.storage.k8s.io/pod.name"] = "web";
    for (const auto& [key, value] : attributes) context[key] = value;
    // What a container runtime could mount itself is no matter to volumes that are made here.
    request.add_runtime_supported_filesystems("ext4");
    const auto response = client_->NodePublishVolume(request, kTimeout);
    EXPECT_FALSE(response.ok() && response->has_runtime_mount_info());
    return response.status();
  }
  // What is in the pool, of any kind.
  size_t Images() const {
    size_t count = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.pool_folder + "/volumes")) {
      count += entry.path().extension() == ".img" ? 1 : 0;
    }
    return count;
  }
  void Write(const std::string& text) { std::ofstream(Mount() + "/file") << text; }
  std::string Read() {
    std::string text;
    std::ifstream(Mount() + "/file") >> text;
    return text;
  }

  std::string kubelet_ = folder_.path();
  const std::string handle_ = "csi-" + std::string(64, 'a');
  VolumeCapability capability_ = MountCapability("ext4");
};

TEST_F(InlineVolumeRootTest, ComesAndGoesWithItsPod) {
  const base::Status published = PublishInline({{"size", "32Mi"}});
  ASSERT_TRUE(published.ok()) << published;
  Write("kept");
  ASSERT_TRUE(PublishInline({{"size", "32Mi"}}).ok()) << "the same call again";
  EXPECT_EQ(Read(), "kept");
  const auto stats = Stats(handle_, Mount());
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GT(stats->usage(0).total(), 20 * kMiB);
  EXPECT_LT(stats->usage(0).total(), 40 * kMiB);
  const auto listed = client_->ListVolumes({}, kTimeout);
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->entries_size(), 0) << "it is nobody's but the pod's";

  ASSERT_TRUE(Unpublish(handle_, Mount()).ok());
  EXPECT_EQ(Images(), 0u);
  EXPECT_FALSE(std::filesystem::exists(Mount()));
  EXPECT_TRUE(Unpublish(handle_, Mount()).ok()) << "the same call again";
}

TEST_F(InlineVolumeRootTest, OutlivesTheDriversProcess) {
  ASSERT_TRUE(PublishInline().ok());
  Write("kept");
  Restart();
  EXPECT_EQ(Read(), "kept");
  ASSERT_TRUE(PublishInline().ok());
  ASSERT_TRUE(Unpublish(handle_, Mount()).ok());
  EXPECT_EQ(Images(), 0u);
}

TEST_F(InlineVolumeRootTest, OneWhosePodIsGoneIsRemovedAtTheStart) {
  ASSERT_TRUE(PublishInline().ok());
  // As after a reboot: nothing is mounted, and nobody is left who would unpublish it.
  ASSERT_TRUE(mounter_->Unmount(Mount()).ok());
  Restart();
  EXPECT_EQ(Images(), 1u) << "the pod may come again";
  std::filesystem::remove_all(folder_ / "pods/uid-1");
  Restart();
  EXPECT_EQ(Images(), 0u);
}

// The kubelet's folder is a file system of its own.
class InlineVolumeLateMountRootTest : public InlineVolumeRootTest {
 protected:
  void SetUp() override {
    kubelet_ = folder_ / "kubelet";
    std::filesystem::create_directory(kubelet_);
    std::filesystem::create_directory(disk_);
    ASSERT_EQ(mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=64m"), 0);
    ASSERT_EQ(mount(nullptr, disk_.c_str(), nullptr, MS_PRIVATE, nullptr), 0);
    MountKubelet();
    options_.look_again = std::chrono::milliseconds(10);
    InlineVolumeRootTest::SetUp();
  }
  void TearDown() override {
    InlineVolumeRootTest::TearDown();
    EXPECT_EQ(umount(kubelet_.c_str()), 0);
    EXPECT_EQ(umount(disk_.c_str()), 0);
  }
  void MountKubelet() {
    ASSERT_EQ(mount(disk_.c_str(), kubelet_.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  // As after a reboot: nothing is mounted.
  void Reboot() {
    driver_.reset();
    ASSERT_TRUE(mounter_->Unmount(Mount()).ok());
    ASSERT_EQ(umount(kubelet_.c_str()), 0);
  }

  const std::string disk_ = folder_ / "disk";
};

TEST_F(InlineVolumeLateMountRootTest, ItsDataStaysWhileTheKubeletsFolderIsNotMounted) {
  ASSERT_TRUE(PublishInline().ok());
  Write("kept");
  Reboot();
  Restart();
  EXPECT_EQ(Images(), 1u);
  // A kubelet that started too early has made the folder on the wrong file system.
  std::filesystem::create_directory(kubelet_ + "/pods");
  Restart();
  EXPECT_EQ(Images(), 1u);
  MountKubelet();
  ASSERT_TRUE(PublishInline().ok());
  EXPECT_EQ(Read(), "kept");
  ASSERT_TRUE(Unpublish(handle_, Mount()).ok());
  EXPECT_EQ(Images(), 0u);
}

TEST_F(InlineVolumeLateMountRootTest, ItIsRemovedWhenTheFolderIsThereWithoutItsPod) {
  ASSERT_TRUE(PublishInline().ok());
  Reboot();
  std::filesystem::remove_all(disk_ + "/pods/uid-1");
  Restart();
  EXPECT_EQ(Images(), 1u);
  MountKubelet();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Images() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(Images(), 0u);
}

TEST_F(InlineVolumeRootTest, ReadOnlyIsReadOnly) {
  ASSERT_TRUE(PublishInline({}, /*read_only=*/true).ok());
  EXPECT_NE(access(Mount().c_str(), W_OK), 0);
  EXPECT_EQ(PublishInline().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Unpublish(handle_, Mount()).ok());
}

TEST_F(InlineVolumeRootTest, WhatIsWrongIsRefusedAndLeavesNothing) {
  const base::Status typo = PublishInline({{"siez", "1Gi"}});
  EXPECT_EQ(typo.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(typo)), HasSubstr("takes 'size' only"));
  EXPECT_EQ(PublishInline({{"size", "plenty"}}).code(), StatusCode::kInvalidArgument);
  capability_ = BlockCapability();
  EXPECT_EQ(PublishInline().code(), StatusCode::kInvalidArgument);
  capability_ = MountCapability("ext4");
  capability_.mutable_mount()->add_mount_flags("no-such-option");
  EXPECT_FALSE(PublishInline().ok());
  EXPECT_EQ(Images(), 0u);
  EXPECT_FALSE(std::filesystem::exists(Mount()));
}

TEST_F(InlineVolumeRootTest, WhatIsMountedAtItsTargetIsLeftAlone) {
  std::filesystem::create_directory(Mount());
  ASSERT_TRUE(mounter_->Mount({.source = "tmpfs", .target = Mount(), .fs_type = "tmpfs"}).ok());
  EXPECT_EQ(PublishInline().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Unpublish(handle_, Mount()).ok());
  EXPECT_TRUE(mounter_->Unmount(Mount()).ok()) << "still there";
}

}  // namespace
}  // namespace berth::csidriver
