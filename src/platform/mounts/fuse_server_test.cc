#include "platform/mounts/fuse_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

constexpr const char* kContainer =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

// A /proc with what is written into it.
class FuseServerTest : public ::testing::Test {
 protected:
  void AddDescriptor(pid_t pid, int fd, const std::string& link, const std::string& info) {
    const std::string process = fmt::format("{}/{}", proc_.path(), pid);
    std::filesystem::create_directories(process + "/fd");
    std::filesystem::create_directories(process + "/fdinfo");
    std::filesystem::create_symlink(link, fmt::format("{}/fd/{}", process, fd));
    std::ofstream(fmt::format("{}/fdinfo/{}", process, fd)) << info;
  }
  FuseServer WithCgroup(const std::string& lines) {
    std::filesystem::create_directories(proc_ / "7");
    std::ofstream(proc_ / "7/comm") << "glusterfs\n";
    std::ofstream(proc_ / "7/cgroup") << lines;
    return DescribeFuseServer(7, proc_.path());
  }

  TempFolder proc_;
};

TEST_F(FuseServerTest, AreThoseThatHoldTheConnection) {
  AddDescriptor(7, 3, "/dev/fuse", "pos:\t0\nfuse_connection:\t49\n");
  AddDescriptor(7, 4, "/dev/null", "pos:\t0\n");
  AddDescriptor(8, 5, "/host/dev/fuse", "pos:\t0\nfuse_connection:\t49\n");
  AddDescriptor(9, 5, "/dev/fuse", "pos:\t0\nfuse_connection:\t50\n");
  AddDescriptor(10, 5, "/dev/fuse", "pos:\t0\n");  // it has mounted nothing yet
  const FuseServers servers = FindFuseServers(proc_.path());
  EXPECT_EQ(servers.GetServers(49), (std::set<pid_t>{7, 8}));
  EXPECT_EQ(servers.GetServers(50), (std::set<pid_t>{9}));
  EXPECT_EQ(servers.GetServers(51), std::set<pid_t>());
}

TEST_F(FuseServerTest, MayBeAnyWhereTheKernelDoesNotSay) {
  AddDescriptor(7, 3, "/dev/fuse", "pos:\t0\nmnt_id:\t30\n");
  AddDescriptor(8, 3, "/dev/fuse", "pos:\t0\nmnt_id:\t30\n");
  EXPECT_EQ(FindFuseServers(proc_.path()).GetServers(49), (std::set<pid_t>{7, 8}));
}

TEST_F(FuseServerTest, AreKnownByTheirContainer) {
  const FuseServer server =
      WithCgroup(fmt::format("0::/kubepods.slice/kubepods-burstable.slice/"
                             "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice/"
                             "cri-containerd-{}.scope\n",
                             kContainer));
  EXPECT_EQ(server.name, "glusterfs");
  EXPECT_EQ(server.container, kContainer);
  EXPECT_EQ(server.pod_uid, "11111111-2222-3333-4444-555555555555");
}

TEST_F(FuseServerTest, AreKnownByTheirContainerWithoutSystemd) {
  const FuseServer server =
      WithCgroup(fmt::format("4:memory:/user.slice\n"
                             "0::/kubepods/besteffort/pod11111111-2222-3333-4444-555555555555/{}\n",
                             kContainer));
  EXPECT_EQ(server.container, kContainer);
  EXPECT_EQ(server.pod_uid, "11111111-2222-3333-4444-555555555555");
}

TEST_F(FuseServerTest, MayBeOfTheHostItself) {
  const FuseServer server = WithCgroup("0::/system.slice/podman-pods.service\n");
  EXPECT_EQ(server.container, "");
  EXPECT_EQ(server.pod_uid, "");
}

TEST(FuseMounts, AreKnownByTheirType) {
  EXPECT_TRUE(IsFuse({.fs_type = "fuse"}));
  EXPECT_TRUE(IsFuse({.fs_type = "fuse.glusterfs"}));
  EXPECT_TRUE(IsFuse({.fs_type = "fuseblk"}));
  EXPECT_FALSE(IsFuse({.fs_type = "fusectl"}));
  EXPECT_FALSE(IsFuse({.fs_type = "ext4"}));
}

TEST(FuseMounts, LeadToTheConnectionOfTheirDevice) {
  EXPECT_EQ(ToFuseConnection(0, 49), 49U);
  EXPECT_EQ(ToFuseConnection(8, 1), (8U << 20) + 1);
}

}  // namespace
}  // namespace berth::platform
