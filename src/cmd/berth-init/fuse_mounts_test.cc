#include "cmd/berth-init/fuse_mounts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace berth::init {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Mount Fuse(const std::string& id, const std::string& device, const std::string& mount_point) {
  return {.id = id, .device = device, .mount_point = mount_point, .fuse = true};
}

TEST(MountsTest, ReadsAMountTable) {
  EXPECT_THAT(
      ParseMounts("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw\n"
                  "114 87 0:49 / /k/a\\040b\\134 rw - fuse.glusterfs 10.0.0.7:/v rw,user_id=0\n"
                  "115 87 0:50 / /c rw - fuse ceph-fuse rw\n"
                  "116 87 0:51 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n"
                  "rubbish\n"
                  "1 2 3:4 - x\n"),
      ElementsAre(Mount{"36", "98:0", "/mnt2", false}, Mount{"114", "0:49", "/k/a b\\", true},
                  Mount{"115", "0:50", "/c", true},
                  Mount{"116", "0:51", "/sys/fs/fuse/connections", false}));
}

// Two daemons in the container, the file system of a third elsewhere.
const std::vector<Mount> kHost = {{.id = "1", .device = "8:1", .mount_point = "/"},
                                  Fuse("2", "0:49", "/k/one"),
                                  Fuse("3", "0:49", "/k/one-again"),
                                  Fuse("4", "0:50", "/k/two"),
                                  Fuse("5", "0:51", "/k/other")};

TEST(ServedTest, GoesByTheConnectionsThatTheKernelNames) {
  const std::vector<FuseServer> servers = {{.connections = {"0:49"}}};
  EXPECT_THAT(FindServedMounts(servers, kHost, kHost, {}), ElementsAre(kHost[1], kHost[2]));
  // It still is served if it was there before: the container knows better.
  EXPECT_THAT(FindServedMounts(servers, kHost, {}, kHost), ElementsAre(kHost[1], kHost[2]));
  // Mounted nowhere on the host any more.
  EXPECT_THAT(FindServedMounts(servers, {kHost[0], kHost[3]}, kHost, {}), IsEmpty());
  EXPECT_THAT(FindServedMounts({}, kHost, kHost, {}), IsEmpty());
}

TEST(ServedTest, GoesByTheArgumentsWhereTheKernelNamesNone) {
  const FuseServer one{.arguments = {"glusterfs", "/k/one"}, .connections = {std::nullopt}};
  const FuseServer unnamed{.arguments = {"daemon"}, .connections = {std::nullopt}};
  EXPECT_THAT(FindServedMounts({one}, kHost, kHost, {}), ElementsAre(kHost[1], kHost[2]));
  // One of the new mounts is served by the daemon, and it is not known which one.
  EXPECT_THAT(FindServedMounts({unnamed}, kHost, kHost, {}),
              ElementsAre(kHost[1], kHost[2], kHost[3], kHost[4]));
  // Mounts that were there before, and mounts that are not seen here, do not count.
  EXPECT_THAT(FindServedMounts({unnamed}, kHost, {kHost[3], kHost[4]}, {kHost[4]}),
              ElementsAre(kHost[3]));
  // The mount has the number of an earlier mount, but is another one.
  EXPECT_THAT(FindServedMounts({unnamed}, {Fuse("9", "0:51", "/k/new")}, kHost, {kHost[4]}),
              ElementsAre(Fuse("9", "0:51", "/k/new")));
}

TEST(ProcessesTest, FindsServersAndUtilities) {
  namespace fs = std::filesystem;
  char folder[] = "/tmp/berth-proc-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const fs::path proc = folder;
  const auto process = [&](const std::string& pid, const std::string& status,
                           const std::string& fuse_info) {
    fs::create_directories(proc / pid / "fd");
    fs::create_directories(proc / pid / "fdinfo");
    std::ofstream(proc / pid / "status") << status;
    std::ofstream(proc / pid / "cmdline") << std::string("daemon\0/k/one\0", 14);
    fs::create_symlink("/dev/null", proc / pid / "fd" / "0");
    std::ofstream(proc / pid / "fdinfo" / "0") << "pos:\t0\n";
    if (fuse_info.empty()) return;
    fs::create_symlink("/dev/fuse", proc / pid / "fd" / "5");
    std::ofstream(proc / pid / "fdinfo" / "5") << fuse_info;
  };
  const auto status = [](const std::string& name, const std::string& state, int parent) {
    return "Name:\t" + name + "\nState:\t" + state + "\nPPid:\t" + std::to_string(parent) + "\n";
  };
  process("1", status("berth-init", "S (sleeping)", 0), "");
  process("22", status("old", "S (sleeping)", 1), "pos:\t0\n");
  process("30", status("mkfs) xfs)", "R (running)", 0), "");
  process("31", status("sh", "Z (zombie)", 0), "");
  fs::create_directories(proc / "self");
  // Where the kernel names no file system, each process with /dev/fuse may serve any.
  const Processes unnamed = FindProcesses(proc);
  process("20", status("a daemon", "S (sleeping)", 1), "pos:\t0\nfuse_connection:\t49\n");
  process("21", status("block", "S (sleeping)", 1), "pos:\t0\nfuse_connection:\t8388609\n");
  const Processes found = FindProcesses(proc);
  fs::remove_all(proc);

  const auto connections = [](const Processes& processes) {
    std::vector<std::string> connections;
    for (const FuseServer& server : processes.servers) {
      EXPECT_THAT(server.arguments, ElementsAre("daemon", "/k/one"));
      for (const auto& connection : server.connections) {
        connections.push_back(connection.value_or("unknown"));
      }
    }
    return connections;
  };
  EXPECT_THAT(connections(unnamed), ElementsAre("unknown"));
  EXPECT_THAT(connections(found), ::testing::UnorderedElementsAre("0:49", "8:1"));
  ASSERT_EQ(found.utilities.size(), 1U);
  EXPECT_EQ(found.utilities[0].name, "mkfs) xfs)");
  EXPECT_EQ(found.utilities[0].pid, 30);
}

}  // namespace
}  // namespace berth::init
