// Volumes that are published for a pod before it has a sandbox, as under an unmodified kubelet.
#include <sys/mount.h>

#include <thread>

#include "base/assert_ok.h"
#include "crust/handler_fixture.h"

namespace berth::crust {
namespace {

constexpr const char* kPlaceholderMount = "tmpfs berth-crust";

class PodVolumesTest : public HandlerFixture {
 protected:
  std::string Id(const std::string& name) const { return sandbox_ + "-" + name; }

  // The file systems at a path of the host, the topmost last.
  std::vector<std::string> MountedAt(const std::string& path) {
    std::vector<std::string> types;
    const auto table = mounter_->List();
    for (const auto& mount : *table) {
      if (mount.mount_point == path) types.push_back(mount.fs_type + " " + mount.source);
    }
    return types;
  }
  // What containerd logs when the container cannot be created.
  std::string Refusal(const std::string& id, const std::vector<TestMount>& mounts) {
    const Outcome refused = Create(id, false, mounts);
    EXPECT_NE(refused.exit_code, 0);
    return refused.out + refused.log;
  }
  // The kubelet makes another sandbox when one has died.
  void BeAnotherSandbox() { sandbox_ += "n"; }

  // Waits until nothing keeps a sandbox that was deleted from its end any more.
  void WaitForEnd() {
    const auto deadline = std::chrono::steady_clock::now() + kCallTime;
    while (CountIn("run/sandboxes") != 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(CountIn("run/records/pods"), 0u);
    EXPECT_EQ(CountIn("run/plans"), 0u);
    EXPECT_EQ(CountIn("run/records/sandboxes"), 0u);
    EXPECT_EQ(CountIn("run/sandboxes"), 0u);
  }
};

TEST_F(PodVolumesTest, AContainerHasAVolumeThatWasPublishedBeforeItsSandbox) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  const auto request = PodRequest("pv", device, "ext4");
  ASSERT_OK(Publish(request));
  EXPECT_TRUE(Publish(request).ok());
  EXPECT_THAT(MountedAt(Target("pv")), testing::ElementsAre(kPlaceholderMount));
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

TEST_F(PodVolumesTest, ThePlaceholderHoldsHardlyAnything) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  const auto table = mounter_->List();
  const platform::MountEntry* mount = platform::FindMount(*table, Target("pv"));
  ASSERT_NE(mount, nullptr);
  for (const char* option : {"nosuid", "nodev", "noexec"}) {
    EXPECT_THAT(mount->options, testing::Contains(option));
  }
  std::ofstream file(Target("pv") + "/file");
  file << std::string(kMiB, 'x') << std::flush;
  EXPECT_FALSE(file.good()) << "it is full";
  EXPECT_EQ(UnpublishForPod("pv", device.path).code(), StatusCode::kFailedPrecondition)
      << "a file is open";
  file.close();
  ASSERT_OK(UnpublishForPod("pv", device.path));
}

TEST_F(PodVolumesTest, ASubPathOfTheKubeletIsThePathInTheVolume) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  BeginSandbox();
  StartContainer(Id("all"), {{Target("pv"), "/data"}});
  ASSERT_EQ(Shell(Id("all"),
                  "mkdir -p '/data/a b/c'; echo deep > '/data/a b/c/file'; "
                  "echo conf > /data/conf")
                .exit_code,
            0);
  const std::string folder = BindSubPath("pv", "one", "a b/c");
  const std::string file = BindSubPath("pv", "two", "conf");
  const std::string fresh = BindSubPath("pv", "three", "new/folder");
  StartContainer(Id("one"), {{folder, "/data"}, {fresh, "/more"}});
  EXPECT_EQ(Shell(Id("one"), "cat /data/file").out, "deep\n");
  EXPECT_EQ(Shell(Id("one"), "echo made > /more/file").exit_code, 0);
  EXPECT_EQ(Shell(Id("all"), "cat /data/new/folder/file").out, "made\n");
  // A file of the volume: the kubelet made a folder of its name, because it does not see the file.
  std::ofstream(folder_ / "rootfs/tmp/conf") << "";
  StartContainer(Id("two"), {{file, "/tmp/conf"}});
  EXPECT_EQ(Shell(Id("two"), "cat /tmp/conf").out, "conf\n");

  for (const std::string& bound : {folder, file, fresh}) UnbindSubPath(bound);
  for (const char* name : {"one", "two", "all"}) Delete(Id(name));
  // The folders in the placeholder are the kubelet's, as long as it is mounted.
  Delete(sandbox_);
  EXPECT_TRUE(std::filesystem::exists(Target("pv") + "/a b/c"));
  ASSERT_OK(UnpublishForPod("pv", device.path));
  EXPECT_TRUE(std::filesystem::is_empty(Target("pv")));
  ExpectNothingLeft();
}

TEST_F(PodVolumesTest, AContainerNeverGetsTheEmptyFolderOfASubPath) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  BeginSandbox();
  EXPECT_THAT(Refusal(Id("plain"), {{SubPathSource("pv", "plain"), "/data"}}),
              HasSubstr("nothing is mounted there"));
  const std::string gone = BindSubPath("pv", "gone", "sub");
  ASSERT_EQ(rmdir((Target("pv") + "/sub").c_str()), 0);
  EXPECT_THAT(Refusal(Id("gone"), {{gone, "/data"}}), HasSubstr("its folder was deleted"));
  const std::string old = BindSubPath("pv", "old", "sub");
  ASSERT_EQ(umount2(Target("pv").c_str(), UMOUNT_NOFOLLOW), 0);
  EXPECT_THAT(Refusal(Id("old"), {{old, "/data"}}), HasSubstr("the placeholder of the volume"));
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  EXPECT_THAT(Refusal(Id("old"), {{old, "/data"}}), HasSubstr("not a folder of the volume's"));
  ASSERT_OK(UnpublishForPod("pv", device.path));
  EXPECT_THAT(MountedAt(Target("pv")), testing::IsEmpty());
}

TEST_F(PodVolumesTest, TheKubeletsFolderMayBeALink) {
  for (const std::string& link : {std::string("kubelet"), std::string("kubelet/pods")}) {
    SCOPED_TRACE(link);
    BeAnotherPod();
    const auto device = MakeDevice("ext4", 64 * kMiB);
    std::filesystem::remove_all(folder_ / "kubelet");
    std::filesystem::create_directories(folder_ / ("disk/" + link));
    std::filesystem::create_directories(std::filesystem::path(folder_ / link).parent_path());
    std::filesystem::create_symlink(folder_ / ("disk/" + link), folder_ / link);
    Restart();
    ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
    BeginSandbox();
    // containerd may write either form.
    const std::string bound = BindSubPath("pv", "one", "sub");
    const std::string resolved = std::filesystem::canonical(bound);
    ASSERT_NE(bound, resolved);
    StartContainer(Id("one"), {{bound, "/data"}});
    StartContainer(Id("two"), {{resolved, "/data"}});
    EXPECT_EQ(Shell(Id("one"), "echo hello > /data/file").exit_code, 0);
    EXPECT_EQ(Shell(Id("two"), "cat /data/file").out, "hello\n");
    StartContainer(Id("all"), {{std::filesystem::canonical(Target("pv")), "/data"}});
    EXPECT_EQ(Shell(Id("all"), "cat /data/sub/file").out, "hello\n");
    UnbindSubPath(bound);
    for (const char* name : {"one", "two", "all"}) Delete(Id(name));
    ASSERT_OK(UnpublishForPod("pv", device.path));
    Delete(sandbox_);
    const auto table = mounter_->List();
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(folder_ / "disk/kubelet")) << mount.mount_point;
    }
  }
}

TEST_F(PodVolumesTest, WithoutSubPathsAContainerGetsTheWholeVolumeOnly) {
  options_.capabilities = {"POD_VOLUMES"};
  Restart();
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  BeginSandbox();
  const std::string bound = BindSubPath("pv", "one", "sub");
  EXPECT_THAT(Refusal(Id("one"), {{bound, "/data"}}), HasSubstr("does not offer subPath"));
  UnbindSubPath(bound);
  ASSERT_OK(UnpublishForPod("pv", device.path));
}

TEST_F(PodVolumesTest, ASandboxWhoseVolumeCannotBeMountedDoesNotBegin) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  const auto other = MakeDevice("xfs");
  ASSERT_OK(Publish(PodRequest("good", device, "ext4")));
  ASSERT_OK(Publish(PodRequest("pv", other, "ext4")));
  const Outcome begun = Create(sandbox_, true, {});
  EXPECT_NE(begun.exit_code, 0);
  EXPECT_THAT(begun.out + begun.log, HasSubstr(fmt::format("publish '{}' of pod", other.path)));
  EXPECT_TRUE(IsFree(device));
  EXPECT_EQ(CountIn("run/records/sandboxes"), 0u);
  EXPECT_EQ(CountIn("data/holders"), 0u);
  ASSERT_OK(UnpublishForPod("pv", other.path));
  BeginSandbox();
  EXPECT_FALSE(IsFree(device));
  ASSERT_OK(UnpublishForPod("good", device.path));
  EXPECT_TRUE(IsFree(device));
}

// As if the kubelet was killed after the runtime had created the container.
TEST_F(PodVolumesTest, AContainerThatWasNeverStartedIsNamedAsTheOneThatHoldsTheVolume) {
  options_.free_within = std::chrono::milliseconds(100);
  Restart();
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_OK(Publish(PodRequest("pv", device, "ext4")));
  BeginSandbox();
  // As containerd names containers.
  const std::string id = base::Sha256Hex(Id("one"));
  ASSERT_EQ(CreateOnly(id, false, {{Target("pv"), "/data"}}).exit_code, 0);
  const std::string pid = *platform::ReadFile(Bundle(id) + "/pid");

  for (int i = 0; i < 2; ++i) {
    const base::Status busy = UnpublishForPod("pv", device.path);
    EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(busy), HasSubstr("is still in use"));
    EXPECT_THAT(base::Message(busy), HasSubstr("process " + pid + " 'runc"));
    EXPECT_THAT(base::Message(busy), HasSubstr("container " + id));
  }
  // The sandbox ends before the container does, as StopPodSandbox of containerd leaves it.
  Delete(sandbox_);
  EXPECT_EQ(UnpublishForPod("pv", device.path).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(IsFree(device));
  Delete(id);
  ASSERT_OK(UnpublishForPod("pv", device.path));
  EXPECT_TRUE(IsFree(device));
  WaitForEnd();
  ExpectNothingLeft();
  EXPECT_THAT(MountedAt(Target("pv")), testing::IsEmpty());
}

// The handler comes again and again to clear the sandbox, and must not hold it all the time.
TEST_F(PodVolumesTest, SeveralVolumesThatStayBusyKeepNoCallFromSayingWhy) {
  options_.free_within = std::chrono::seconds(1);
  options_.patience = std::chrono::seconds(2);
  Restart();
  std::vector<TestMount> mounts;
  const std::vector<std::string> names = {"pv0", "pv1", "pv2"};
  std::vector<platform::LoopDevice> devices;
  for (const std::string& name : names) {
    devices.push_back(MakeDevice("ext4", 64 * kMiB));
    ASSERT_OK(Publish(PodRequest(name, devices.back(), "ext4")));
    mounts.push_back({Target(name), "/" + name});
  }
  BeginSandbox();
  ASSERT_EQ(CreateOnly(Id("one"), false, mounts).exit_code, 0);
  Delete(sandbox_);
  for (size_t i = 0; i < names.size(); ++i) {
    const base::Status busy = UnpublishForPod(names[i], devices[i].path);
    EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition) << busy;
    EXPECT_THAT(base::Message(busy), HasSubstr("'runc"));
  }
  Delete(Id("one"));
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_OK(UnpublishForPod(names[i], devices[i].path));
    EXPECT_TRUE(IsFree(devices[i]));
  }
  WaitForEnd();
  ExpectNothingLeft();
}

TEST_F(PodVolumesTest, WhatAnotherProgramMountedAtTheTargetStays) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  std::filesystem::create_directories(Target("pv"));
  ASSERT_EQ(mount(device.path.c_str(), Target("pv").c_str(), "ext4", 0, nullptr), 0);
  const base::Status refused = Publish(PodRequest("pv", device, "ext4"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  ASSERT_OK(UnpublishForPod("pv", device.path));
  EXPECT_EQ(MountedAt(Target("pv")).size(), 1u);
  EXPECT_EQ(umount2(Target("pv").c_str(), UMOUNT_NOFOLLOW), 0);
  ExpectNothingLeft();
}

TEST_F(PodVolumesTest, AVolumeIsMeasuredAndGrowsByThePod) {
  const auto device = MakeDevice("xfs");
  ASSERT_OK(Publish(PodRequest("pv", device, "xfs")));
  wire::RuntimeGetVolumeStatsRequest stats;
  stats.set_pod_uid(uid_);
  stats.set_host_volume_id(device.path);
  EXPECT_EQ(client_->RuntimeGetVolumeStats(stats, kCallTime).status().code(),
            StatusCode::kUnavailable);
  BeginSandbox();
  Restart();
  const auto usage = client_->RuntimeGetVolumeStats(stats, kCallTime);
  ASSERT_OK(usage);
  EXPECT_FALSE(usage->volume_condition().abnormal());
  EXPECT_GT(usage->usage(0).total(), 0);

  std::filesystem::resize_file(folder_ / "image0", 400 * kMiB);
  ASSERT_TRUE(platform::RefreshLoopSize(device).ok());
  wire::RuntimeExpandVolumeRequest expand;
  expand.set_pod_uid(uid_);
  expand.set_host_volume_id(device.path);
  expand.set_required_bytes(400 * kMiB);
  const auto grown = client_->RuntimeExpandVolume(expand, kCallTime);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->capacity_bytes(), static_cast<int64_t>(400 * kMiB));
  EXPECT_GT(client_->RuntimeGetVolumeStats(stats, kCallTime)->usage(0).total(),
            usage->usage(0).total());
  ASSERT_OK(UnpublishForPod("pv", device.path));
}

TEST_F(PodVolumesTest, AVolumeThatGrowsBeforeTheSandboxGrowsWithIt) {
  const auto device = MakeDevice("xfs");
  ASSERT_OK(Publish(PodRequest("pv", device, "xfs")));
  wire::RuntimeExpandVolumeRequest expand;
  expand.set_pod_uid(uid_);
  expand.set_host_volume_id(device.path);
  expand.set_required_bytes(500 * kMiB);
  EXPECT_EQ(client_->RuntimeExpandVolume(expand, kCallTime).status().code(),
            StatusCode::kUnavailable)
      << "the device has not grown";
  std::filesystem::resize_file(folder_ / "image0", 500 * kMiB);
  ASSERT_TRUE(platform::RefreshLoopSize(device).ok());
  const auto grown = client_->RuntimeExpandVolume(expand, kCallTime);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->capacity_bytes(), static_cast<int64_t>(500 * kMiB));
  Restart();
  ASSERT_OK(Publish(PodRequest("pv", device, "xfs")));  // as after a restart of the kubelet
  BeginSandbox();
  wire::RuntimeGetVolumeStatsRequest stats;
  stats.set_pod_uid(uid_);
  stats.set_host_volume_id(device.path);
  const auto usage = client_->RuntimeGetVolumeStats(stats, kCallTime);
  ASSERT_OK(usage);
  EXPECT_GT(usage->usage(0).total(), static_cast<int64_t>(420 * kMiB));
  ASSERT_OK(UnpublishForPod("pv", device.path));
}

}  // namespace
}  // namespace berth::crust
