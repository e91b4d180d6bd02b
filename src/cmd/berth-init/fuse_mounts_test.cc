#include "cmd/berth-init/fuse_mounts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/unique_fd.h"

namespace berth::init {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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

namespace fs = std::filesystem;

// A /proc with what is written into it.
class ProcessesTest : public ::testing::Test {
 protected:
  static fs::path MakeFolder() {
    char folder[] = "/tmp/berth-proc-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    return folder;
  }
  ~ProcessesTest() override { fs::remove_all(proc_); }

  void AddProcess(const std::string& pid, const std::string& name, const std::string& state,
                  int parent) const {
    fs::create_directories(proc_ / pid / "fd");
    fs::create_directories(proc_ / pid / "fdinfo");
    std::ofstream(proc_ / pid / "status")
        << "Name:\t" << name << "\nState:\t" << state << "\nPPid:\t" << parent << "\n";
    std::ofstream(proc_ / pid / "cmdline") << std::string("daemon\0/k/one\0", 14);
    AddDescriptor(pid, "0", "/dev/null", "pos:\t0\n");
  }
  void AddDescriptor(const std::string& pid, const std::string& fd, const std::string& link,
                     const std::string& info) const {
    fs::create_symlink(link, proc_ / pid / "fd" / fd);
    std::ofstream(proc_ / pid / "fdinfo" / fd) << info;
  }
  // A descriptor whose fdinfo lets everybody wait who reads it.
  void AddHungDescriptor(const std::string& pid, const std::string& fd, const std::string& link) {
    fs::create_symlink(link, proc_ / pid / "fd" / fd);
    hung_.push_back(proc_ / pid / "fdinfo" / fd);
    ASSERT_EQ(mkfifo(hung_.back().c_str(), 0600), 0);
  }
  // Fails if something waits for ever.
  Processes Find() {
    auto found = std::async(std::launch::async, [&] { return FindProcesses(proc_); });
    if (found.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      ADD_FAILURE() << "something waits for the fdinfo of a descriptor";
      while (found.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
        for (const fs::path& path : hung_) {
          const base::UniqueFd writer(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
        }
      }
    }
    return found.get();
  }
  static std::vector<std::string> ListConnections(const Processes& processes) {
    std::vector<std::string> connections;
    for (const FuseServer& server : processes.servers) {
      EXPECT_THAT(server.arguments, ElementsAre("daemon", "/k/one"));
      for (const auto& connection : server.connections) {
        connections.push_back(connection.value_or("unknown"));
      }
    }
    return connections;
  }

  const fs::path proc_ = MakeFolder();
  std::vector<fs::path> hung_;
};

TEST_F(ProcessesTest, FindsServersAndUtilities) {
  AddProcess("1", "berth-init", "S (sleeping)", 0);
  AddProcess("22", "old", "S (sleeping)", 1);
  AddDescriptor("22", "5", "/dev/fuse", "pos:\t0\n");
  AddProcess("30", "mkfs) xfs)", "R (running)", 0);
  AddProcess("31", "sh", "Z (zombie)", 0);
  fs::create_directories(proc_ / "self");
  // Where the kernel names no file system, each process with /dev/fuse may serve any.
  EXPECT_THAT(ListConnections(Find()), ElementsAre("unknown"));
  AddProcess("20", "a daemon", "S (sleeping)", 1);
  AddDescriptor("20", "5", "/dev/fuse", "pos:\t0\nfuse_connection:\t49\n");
  AddProcess("21", "block", "S (sleeping)", 1);
  AddDescriptor("21", "5", "/dev/fuse", "pos:\t0\nfuse_connection:\t8388609\n");
  const Processes found = Find();
  EXPECT_THAT(ListConnections(found), UnorderedElementsAre("0:49", "8:1"));
  ASSERT_EQ(found.utilities.size(), 1U);
  EXPECT_EQ(found.utilities[0].name, "mkfs) xfs)");
  EXPECT_EQ(found.utilities[0].pid, 30);
}

// The fdinfo of an epoll descriptor can let its reader wait for ever.
TEST_F(ProcessesTest, WaitsForNoDescriptor) {
  AddProcess("20", "a daemon", "S (sleeping)", 1);
  AddDescriptor("20", "5", "/dev/fuse", "pos:\t0\nfuse_connection:\t49\n");
  AddHungDescriptor("20", "6", "anon_inode:[eventpoll]");
  EXPECT_THAT(ListConnections(Find()), ElementsAre("0:49"));
  // Nobody can tell which file systems this process serves.
  AddProcess("21", "another", "S (sleeping)", 1);
  AddHungDescriptor("21", "5", "/dev/fuse");
  EXPECT_THAT(ListConnections(Find()), UnorderedElementsAre("0:49", "unknown"));
}

}  // namespace
}  // namespace berth::init
