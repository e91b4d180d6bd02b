#include <sys/stat.h>

#include "crust/machine/guest_fixture.h"
#include "crust/machine/vm_sandbox.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::HasSubstr;

class VmSandboxTest : public GuestFixture {
 protected:
  // Breaks the check sum of the root folder's block.
  void DamageRootFolder(const platform::LoopDevice& device) {
    const auto exec = platform::NewHostExec();
    const auto blocks = exec->Run({.argv = {"debugfs", "-R", "blocks <2>", device.path}});
    ASSERT_OK(blocks);
    const off_t block = std::stoll(blocks->out);
    const auto stats = exec->Run({.argv = {"debugfs", "-R", "stats", device.path}});
    ASSERT_OK(stats);
    const size_t at = stats->out.find("Block size:");
    ASSERT_NE(at, std::string::npos);
    const off_t size = std::stoll(stats->out.substr(at + std::string("Block size:").size()));
    const base::UniqueFd fd(open(device.path.c_str(), O_RDWR | O_CLOEXEC));
    const std::string nonsense(16, 'x');
    ASSERT_EQ(pwrite(fd.get(), nonsense.data(), nonsense.size(), (block + 1) * size - 16), 16);
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  bool IsMountedOnHost(const platform::LoopDevice& device) {
    const auto table = platform::NewMounter()->List();
    EXPECT_TRUE(table.ok());
    return std::ranges::any_of(*table,
                               [&](const auto& mount) { return mount.source == device.path; });
  }
};

TEST_F(VmSandboxTest, EachFileSystemIsMountedInTheGuestGrowsThereAndIsFreeAfterwards) {
  const auto sandbox = Open();
  for (const std::string type : {"ext4", "xfs", "btrfs"}) {
    SCOPED_TRACE(type);
    const platform::LoopDevice device = MakeDevice(type);
    const MountPlan plan = Plan(device, type);
    ASSERT_OK(sandbox->PublishVolume(plan, {}));
    ProcessOf();
    EXPECT_FALSE(IsMountedOnHost(device));
    EXPECT_FALSE(IsFree(device)) << "the host could mount what the guest has mounted";
    const auto stats = sandbox->ReadStats(plan);
    ASSERT_OK(stats);
    EXPECT_FALSE(stats->abnormal) << stats->condition;
    ASSERT_TRUE(stats->usage.has_value());
    EXPECT_GT(stats->usage->total_bytes, int64_t{150} << 20);

    std::filesystem::resize_file(folder_ / fmt::format("image{}", loops_.size() - 1),
                                 uint64_t{640} << 20);
    ASSERT_OK(platform::RefreshLoopSize(device));
    const auto grown = sandbox->ExpandVolume(plan);
    ASSERT_OK(grown);
    EXPECT_GT(*grown, stats->usage->total_bytes + (int64_t{200} << 20));

    ASSERT_OK(sandbox->UnpublishVolume(plan));
    EXPECT_TRUE(IsFree(device));
    EXPECT_EQ(sandbox->ReadStats(plan).status().code(), StatusCode::kNotFound);
  }
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, FilesGetThePodsGroupInTheGuest) {
  static constexpr gid_t kGroup = 4242;
  const platform::LoopDevice device = MakeDevice("ext4");
  OnHost(device, "ext4", [](const std::string& root) {
    std::filesystem::create_directories(root + "/a/b");
    std::ofstream(root + "/a/b/file") << "data";
    std::filesystem::create_symlink("file", root + "/a/b/link");
    chmod((root + "/a/b/file").c_str(), 0600);
  });
  const auto sandbox = Open();
  const MountPlan plan = PlanWithGroup(device, "ext4", kGroup);
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  ASSERT_OK(sandbox->UnpublishVolume(plan));
  ASSERT_OK(sandbox->RemoveSandbox());
  OnHost(device, "ext4", [](const std::string& root) {
    for (const char* path : {"", "/a", "/a/b", "/a/b/file", "/a/b/link"}) {
      struct stat st = {};
      ASSERT_EQ(lstat((root + path).c_str(), &st), 0);
      EXPECT_EQ(st.st_gid, kGroup) << path;
      if (S_ISREG(st.st_mode)) EXPECT_EQ(st.st_mode & 07777, 0660u);
      if (S_ISDIR(st.st_mode)) EXPECT_EQ(st.st_mode & 02770, 02770u) << path;
    }
  });
}

TEST_F(VmSandboxTest, AFailedPublishLeavesTheDeviceFreeAndSaysWhatTheGuestSaid) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const auto sandbox = Open();
  const base::Status wrong = sandbox->PublishVolume(Plan(device, "xfs"), {});
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument) << wrong;
  EXPECT_THAT(std::string(base::Message(wrong)), HasSubstr("Invalid superblock magic number"));
  EXPECT_TRUE(IsFree(device));
  const base::Status option = sandbox->PublishVolume(Plan(device, "ext4", "v0", {"nonsense"}), {});
  EXPECT_EQ(option.code(), StatusCode::kInvalidArgument) << option;
  EXPECT_THAT(std::string(base::Message(option)), HasSubstr("nonsense"));
  ASSERT_OK(sandbox->PublishVolume(Plan(device, "ext4"), {}));
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, ADeviceThatIsMountedElsewhereIsRefusedAndAnotherDeviceInItsPlaceToo) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const auto sandbox = Open();
  OnHost(device, "ext4", [&](const std::string&) {
    const base::Status busy = sandbox->PublishVolume(Plan(device, "ext4"), {});
    EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition) << busy;
    EXPECT_THAT(std::string(base::Message(busy)), HasSubstr("in use"));
  });
  MountPlan plan = Plan(device, "ext4");
  plan.device.number += 1;
  EXPECT_EQ(sandbox->PublishVolume(plan, {}).code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, AReadOnlyVolumeIsNotWritten) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const auto before = platform::ReadFile(folder_ / "image0", size_t{1} << 30);
  ASSERT_OK(before);
  const auto sandbox = Open();
  const MountPlan plan = Plan(device, "ext4", "v0", {"ro"});
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  const auto stats = sandbox->ReadStats(plan);
  ASSERT_OK(stats);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  ASSERT_OK(sandbox->UnpublishVolume(plan));
  ASSERT_OK(sandbox->RemoveSandbox());
  EXPECT_EQ(*platform::ReadFile(folder_ / "image0", size_t{1} << 30), *before);
}

TEST_F(VmSandboxTest, AShareAContainerOnTheHostAndALabelAreRefusedWithAReason) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const auto sandbox = Open();
  MountPlan share = Plan(device, "nfs4");
  share.device = {.source = "server:/export"};
  EXPECT_THAT(std::string(base::Message(sandbox->PublishVolume(share, {}))),
              HasSubstr("no network"));
  MountPlan label = Plan(device, "ext4");
  std::get<MountFileSystem>(label.steps.front()).selinux_label = "system_u:object_r:t:s0";
  EXPECT_THAT(std::string(base::Message(sandbox->PublishVolume(label, {}))), HasSubstr("SELinux"));
  const auto graft = sandbox->MakeGraft(Plan(device, "ext4"), "");
  EXPECT_EQ(graft.status().code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(base::Message(graft.status())), HasSubstr("no mount on the host"));
  EXPECT_EQ(Records().ReadRecord("s1").status().code(), StatusCode::kNotFound)
      << "a machine was started for nothing";
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, ANewHandlerFindsTheGuestAndItsVolume) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const MountPlan plan = Plan(device, "ext4");
  ASSERT_OK(Open()->PublishVolume(plan, {}));
  const pid_t process = ProcessOf();
  ASSERT_OK(OpenKind());
  const auto sandbox = Open();
  const auto stats = sandbox->ReadStats(plan);
  ASSERT_OK(stats);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  EXPECT_EQ(ProcessOf(), process);
  ASSERT_OK(sandbox->UnpublishVolume(plan));
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, AHungGuestFailsItsOwnSandboxAloneAndIsRemoved) {
  settings_.answer_within = std::chrono::seconds(5);
  limits_.stats = std::chrono::seconds(5);
  ASSERT_OK(OpenKind());
  const platform::LoopDevice device = MakeDevice("ext4"), other = MakeDevice("ext4");
  const MountPlan plan = Plan(device, "ext4"), other_plan = Plan(other, "ext4");
  const auto hung = Open("s1"), sound = Open("s2");
  ASSERT_OK(hung->PublishVolume(plan, {}));
  ASSERT_OK(sound->PublishVolume(other_plan, {}));
  ASSERT_EQ(kill(ProcessOf("s1"), SIGSTOP), 0);
  const auto stats = hung->ReadStats(plan);
  EXPECT_TRUE(!stats.ok() || stats->abnormal);
  const base::Status unpublished = hung->UnpublishVolume(plan);
  EXPECT_EQ(unpublished.code(), StatusCode::kDeadlineExceeded) << unpublished;
  EXPECT_FALSE(IsFree(device));
  const auto sound_stats = sound->ReadStats(other_plan);
  ASSERT_OK(sound_stats);
  EXPECT_FALSE(sound_stats->abnormal) << sound_stats->condition;
  ASSERT_OK(hung->ForceEnd());
  ASSERT_OK(hung->UnpublishVolume(plan));
  EXPECT_TRUE(IsFree(device));
  ASSERT_OK(hung->RemoveSandbox());
  ASSERT_OK(sound->UnpublishVolume(other_plan));
  ASSERT_OK(sound->RemoveSandbox());
}

TEST_F(VmSandboxTest, ADamagedFileSystemIsToldAsOfTheGuest) {
  const platform::LoopDevice device = MakeDevice("ext4");
  DamageRootFolder(device);
  const auto sandbox = Open();
  const MountPlan plan = Plan(device, "ext4");
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  const auto stats = sandbox->ReadStats(plan);
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->abnormal);
  EXPECT_THAT(stats->condition, HasSubstr("in the guest"));
  EXPECT_THAT(stats->condition, HasSubstr("EXT4-fs error"));
  ASSERT_OK(sandbox->UnpublishVolume(plan));
  ASSERT_OK(sandbox->RemoveSandbox());
}

TEST_F(VmSandboxTest, AGuestThatPanicsFailsItsSandboxAloneAndTellsWhy) {
  const platform::LoopDevice device = MakeDevice("ext4"), other = MakeDevice("ext4");
  DamageRootFolder(device);
  MountPlan plan = PlanWithGroup(device, "ext4", 4242);
  std::get<MountFileSystem>(plan.steps.front()).options = {"errors=panic"};
  const MountPlan other_plan = Plan(other, "ext4");
  const auto panics = Open("s1"), sound = Open("s2");
  ASSERT_OK(sound->PublishVolume(other_plan, {}));
  const base::Status failed = panics->PublishVolume(plan, {});
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed;
  EXPECT_THAT(std::string(base::Message(failed)), HasSubstr("Kernel panic"));
  const auto stats = sound->ReadStats(other_plan);
  ASSERT_OK(stats);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  ASSERT_OK(panics->UnpublishVolume(plan));
  EXPECT_TRUE(IsFree(device));
  ASSERT_OK(panics->RemoveSandbox());
  ASSERT_OK(sound->RemoveSandbox());
}

TEST_F(VmSandboxTest, AGuestThatDoesNotBootLeavesNothing) {
  const auto modules = KernelModules::Read(FindGuestKernel().modules);
  ASSERT_OK(modules);
  // The first program needs libraries, which the image does not have, so the kernel panics.
  const auto image = MakeGuestImage("/bin/true", *modules, {"ext4"});
  ASSERT_OK(image);
  std::ofstream(folder_ / "guest.cpio") << *image;
  const platform::LoopDevice device = MakeDevice("ext4");
  const auto sandbox = Open();
  const base::Status failed = sandbox->PublishVolume(Plan(device, "ext4"), {});
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable) << failed;
  EXPECT_THAT(std::string(base::Message(failed)), HasSubstr("Kernel panic"));
  EXPECT_EQ(Records().ReadRecord("s1").status().code(), StatusCode::kNotFound);
}

TEST_F(VmSandboxTest, AGuestWhoseMachineWasKilledIsNotReplacedAndSaysSo) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const MountPlan plan = Plan(device, "ext4");
  const auto sandbox = Open();
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  ASSERT_EQ(kill(ProcessOf(), SIGKILL), 0);
  const auto stats = sandbox->ReadStats(plan);
  EXPECT_EQ(stats.status().code(), StatusCode::kUnavailable);
  const base::Status again = sandbox->PublishVolume(plan, {});
  EXPECT_EQ(again.code(), StatusCode::kUnavailable) << again;
  EXPECT_THAT(std::string(base::Message(again)), HasSubstr("has ended"));
  ASSERT_OK(sandbox->UnpublishVolume(plan));
  EXPECT_TRUE(IsFree(device));
  ASSERT_OK(sandbox->RemoveSandbox());
  ASSERT_OK(sandbox->PublishVolume(plan, {}));
  ASSERT_OK(sandbox->RemoveSandbox());
}

}  // namespace
}  // namespace berth::crust
