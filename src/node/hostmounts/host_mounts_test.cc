#include "node/hostmounts/host_mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "node/volumes/fake_volume_world.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using World = FakeVolumeWorld;

TEST(CheckHostPath, AcceptsPlainFolders) {
  for (const char* path : {"/mnt", "/mnt/data", "/srv/www", "/home/ann/data", "/data"}) {
    EXPECT_TRUE(CheckHostPath(path, "/var/lib/berth").ok()) << path;
  }
}

TEST(CheckHostPath, RefusesWhatTheSystemNeeds) {
  for (const char* path : {"",
                           "mnt",
                           "/",
                           "//",
                           "/mnt/",
                           "/mnt//x",
                           "/mnt/./x",
                           "/mnt/../etc",
                           "/etc",
                           "/etc/ssl",
                           "/usr",
                           "/usr/local/x",
                           "/proc/1",
                           "/sys/fs",
                           "/dev/shm",
                           "/bin",
                           "/lib64/x",
                           "/var",
                           "/var/lib",
                           "/home",
                           "/tmp",
                           "/root",
                           "/var/lib/berth",
                           "/var/lib/berth/kubelet/x",
                           "/boot/efi"}) {
    EXPECT_EQ(CheckHostPath(path, "/var/lib/berth").code(), StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(CheckHostPath(std::string(5000, 'a').insert(0, "/"), "/x").code(),
            StatusCode::kInvalidArgument);
  // Above its own folder: a mount would hide it.
  EXPECT_FALSE(CheckHostPath("/srv/berth", "/srv/berth/data").ok());
}

class HostMountsTest : public ::testing::Test {
 protected:
  HostMountsTest() : world_({}) {
    world_.AddBoundClaim("x");
    path_ = world_.folder + "/mnt";
    // The informer must be asked for before the world starts them.
    world_.informers.Of<api::HostMount>();
  }
  ~HostMountsTest() override { Stop(); }

  void Start() {
    // HostMounts listens to the manager, so it is made between the manager's making and start: the
    // world does both, which is fine while nothing is mounted yet.
    ASSERT_TRUE(world_.Start().ok());
    mounts_ = std::make_unique<HostMounts>(
        HostMountsOptions{.state_folder = world_.folder + "/node/host-mounts",
                          .own_folder = world_.folder + "/node",
                          .node_name = World::kNode,
                          .retry_start = std::chrono::milliseconds(5),
                          .retry_max = std::chrono::milliseconds(20)},
        world_.client, world_.informers, *world_.manager, *world_.host, world_.host->events());
    ASSERT_TRUE(mounts_->Start().ok());
  }
  void Stop() {
    if (mounts_ != nullptr) mounts_->Stop();
    world_.StopManager();
    mounts_.reset();
  }

  void AddMount(const std::string& path, bool read_only = false) {
    world_.client.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
                       {"kind", "HostMount"},
                       {"metadata", {{"name", "m"}, {"namespace", "default"}, {"uid", "m-1"}}},
                       {"spec",
                        {{"nodeName", World::kNode},
                         {"claimName", "x"},
                         {"path", path},
                         {"readOnly", read_only}}}});
  }
  void DeleteMount() {
    ASSERT_TRUE(world_.client.Delete(api::kinds::kHostMount, "default", "m", {}).ok());
  }
  std::optional<api::HostMount> Mount() const {
    return world_.client.Peek<api::HostMount>("default", "m");
  }
  bool WaitPhase(const std::string& phase, const std::string& message = "") {
    const bool seen = world_.client.WaitUntil([&] {
      const auto mount = Mount();
      return mount.has_value() && mount->phase() == phase &&
             mount->message().find(message) != std::string::npos;
    });
    if (!seen && Mount().has_value())
      ADD_FAILURE() << Mount()->phase() << ": " << Mount()->message();
    return seen;
  }
  bool WaitGone() {
    return world_.client.WaitUntil([&] { return !Mount().has_value(); });
  }

  World world_;
  std::unique_ptr<HostMounts> mounts_;
  std::string path_;
};

TEST_F(HostMountsTest, MountsAndUnmountsAClaim) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  EXPECT_TRUE(world_.host->fake_mounter().IsMounted(path_));
  EXPECT_TRUE(Mount()->has_finalizer(kHostMountFinalizer));
  EXPECT_THAT(world_.manager->KnownPods(), IsEmpty());
  DeleteMount();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(world_.host->fake_mounter().IsMounted(path_));
  Stop();
  EXPECT_THAT(world_.shared->Mounted(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "the folder that was made stays";
  EXPECT_FALSE(std::filesystem::exists(world_.host->paths().Pod("hostmount-m-1")));
  EXPECT_THAT(*platform::ListFolder(world_.folder + "/node/host-mounts"), IsEmpty());
}

// A pod's root may have put a setuid shell or the node of a disk into its claim.
TEST_F(HostMountsTest, SetuidProgramsAndDeviceNodesOfAClaimDoNotCountOnTheHost) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  const auto table = world_.host->fake_mounter().List();
  const platform::MountEntry* mount = platform::FindMount(*table, path_);
  ASSERT_NE(mount, nullptr);
  EXPECT_THAT(mount->options, IsSupersetOf({"nosuid", "nodev"}));
}

TEST_F(HostMountsTest, AFolderThatWasThereStays) {
  std::filesystem::create_directory(path_);
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  DeleteMount();
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(HostMountsTest, AReadOnlyMountIsReadOnly) {
  Start();
  AddMount(path_, /*read_only=*/true);
  ASSERT_TRUE(WaitPhase("Mounted"));
  const auto table = *world_.host->mounter().List();
  EXPECT_THAT(platform::FindMount(table, path_)->options, ::testing::Contains("ro"));
}

TEST_F(HostMountsTest, AFolderThatHoldsSomethingIsNotHidden) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ + "/precious") << "data";
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Pending", "is not empty"));
  EXPECT_FALSE(world_.host->fake_mounter().IsMounted(path_));
  // Once it is cleared, the next try succeeds.
  std::filesystem::remove(path_ + "/precious");
  EXPECT_TRUE(WaitPhase("Mounted"));
}

TEST_F(HostMountsTest, APathInUseIsRefused) {
  std::filesystem::create_directory(path_);
  ASSERT_TRUE(world_.host->mounter().Mount({.source = "tmpfs", .target = path_}).ok());
  Start();
  AddMount(path_);
  EXPECT_TRUE(WaitPhase("Pending", "something else is mounted at"));
}

TEST_F(HostMountsTest, ASymlinkIsRefused) {
  std::filesystem::create_directory(world_.folder + "/real");
  std::filesystem::create_directory_symlink("real", world_.folder + "/link");
  Start();
  AddMount(world_.folder + "/link");
  EXPECT_TRUE(WaitPhase("Pending", "a symlink leads to '" + world_.folder + "/real'"));
}

TEST_F(HostMountsTest, AnAbsoluteSymlinkIsRefused) {
  std::filesystem::create_directory(world_.folder + "/real");
  std::filesystem::create_directory_symlink(world_.folder + "/real", world_.folder + "/link");
  Start();
  AddMount(world_.folder + "/link/deep");
  EXPECT_TRUE(WaitPhase("Pending", "a symlink is on the way to it"));
  EXPECT_FALSE(std::filesystem::exists(world_.folder + "/real/deep"));
}

TEST_F(HostMountsTest, WhatIsMountedComesToRest) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  EXPECT_TRUE(mounts_->WaitIdle(std::chrono::seconds(10)));
}

TEST_F(HostMountsTest, ASystemPathIsRefused) {
  Start();
  AddMount("/usr/share/x");
  ASSERT_TRUE(WaitPhase("Pending", "/usr belongs to the system"));
  EXPECT_FALSE(Mount()->has_finalizer(kHostMountFinalizer));
  DeleteMount();
  EXPECT_TRUE(WaitGone());
}

TEST_F(HostMountsTest, AnUnboundClaimIsNamed) {
  world_.client.Remove(api::kinds::kPersistentVolumeClaim, "default", "x");
  world_.AddUnboundClaim("x");
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Pending", "claim 'x' is not bound"));
  world_.Bind("x");
  EXPECT_TRUE(WaitPhase("Mounted"));
}

TEST_F(HostMountsTest, ABusyMountIsToldAndTriedAgain) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  world_.host->fake_mounter().SetBusy(path_, true);
  DeleteMount();
  ASSERT_TRUE(WaitPhase("Mounted", "busy"));
  EXPECT_EQ(world_.shared->CallCount("TearDown"), 0U);
  world_.host->fake_mounter().SetBusy(path_, false);
  EXPECT_TRUE(WaitGone());
}

TEST_F(HostMountsTest, ItStaysMountedOverARestart) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  world_.client.TakeActions();
  Stop();
  Start();
  DeleteMount();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(world_.host->fake_mounter().IsMounted(path_));
  Stop();
  EXPECT_THAT(world_.shared->Mounted(), IsEmpty());
  for (const std::string& action : world_.client.TakeActions()) {
    EXPECT_THAT(action, ::testing::Not(HasSubstr("being looked up")));
  }
}

TEST_F(HostMountsTest, OneThatVanishedWhileTheAgentWasDownIsUndone) {
  Start();
  AddMount(path_);
  ASSERT_TRUE(WaitPhase("Mounted"));
  Stop();
  world_.client.Remove(api::kinds::kHostMount, "default", "m");
  Start();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!world_.manager->HasReleased("hostmount-m-1")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  EXPECT_FALSE(world_.host->fake_mounter().IsMounted(path_));
}

TEST_F(HostMountsTest, AnotherNodesMountIsLeftAlone) {
  Start();
  world_.client.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
                     {"kind", "HostMount"},
                     {"metadata", {{"name", "other"}, {"namespace", "default"}}},
                     {"spec", {{"nodeName", "node-b"}, {"claimName", "x"}, {"path", path_}}}});
  AddMount(world_.folder + "/mine");
  ASSERT_TRUE(WaitPhase("Mounted"));
  EXPECT_FALSE(world_.host->fake_mounter().IsMounted(path_));
}

}  // namespace
}  // namespace berth::node
