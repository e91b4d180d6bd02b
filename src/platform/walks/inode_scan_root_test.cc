#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/devices/fake_disk.h"
#include "platform/processes/child.h"
#include "platform/processes/exec.h"
#include "platform/walks/inode_scan.h"
#include "platform/walks/ownership.h"

namespace berth::platform {
namespace {

using base::UniqueFd;
using Owners = std::map<uint64_t, std::pair<mode_t, gid_t>>;

constexpr gid_t kGroup = 70'001;  // more than 16 bits

void MakeFile(const std::string& path, mode_t mode = 0644) {
  ASSERT_TRUE(UniqueFd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, mode)).valid()) << path;
}

// All that has a name, as the kernel tells it.
Owners ByName(const std::string& root) {
  Owners owners;
  const auto add = [&](const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    owners[st.st_ino] = {st.st_mode, st.st_gid};
  };
  add(root);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) add(entry.path());
  return owners;
}

struct Layout {
  std::string name;
  std::vector<std::string> mkfs;  // without the device
};

std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

class InodeScanTest : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    Format(GetParam().mkfs);
    FillDisk();
  }

  void Format(std::vector<std::string> mkfs) {
    mkfs.push_back(disk_.device());
    ASSERT_OK(RunOk(*exec_, {.argv = mkfs}));
    Mount();
  }

  void Mount() {
    const std::string type = GetParam().mkfs[0].substr(std::string_view("mkfs.").size());
    ASSERT_OK(disk_.Mount(type.starts_with("ext") ? "ext4" : type));
  }

  // Of every kind, in as many groups as there are.
  void FillDisk() {
    for (int i = 0; i < 40; ++i) {
      const std::string folder = at(fmt::format("folder-{}", i));
      ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
      for (int j = 0; j < 50; ++j) MakeFile(fmt::format("{}/{}", folder, j), j % 2 ? 0640 : 04711);
      for (int j = 0; j < 50; j += 5) {
        ASSERT_EQ(unlink(fmt::format("{}/{}", folder, j).c_str()), 0);
      }
    }
    ASSERT_EQ(symlink("folder-1/1", at("link").c_str()), 0);
    ASSERT_EQ(link(at("folder-1/1").c_str(), at("another-name").c_str()), 0);
    ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
    ASSERT_EQ(mknod(at("device").c_str(), S_IFCHR | 0600, makedev(1, 3)), 0);
    ASSERT_EQ(lchown(at("folder-7/7").c_str(), 0, kGroup), 0);
  }

  std::string at(std::string_view name) const {
    return fmt::format("{}/{}", disk_.mount_point(), name);
  }

  UniqueFd Open(const std::string& path) const {
    return UniqueFd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  std::optional<bool> ScanInodes(const std::function<bool(const InodeOwner&)>& holds,
                                 const std::function<bool()>& cancelled = nullptr) const {
    return HoldsForEveryInode(Open(disk_.mount_point()).get(), holds, cancelled);
  }

  // What the scan sees; nothing if it does not know.
  std::optional<Owners> ByInode() const {
    Owners owners;
    const auto known = ScanInodes([&](const InodeOwner& inode) {
      owners[inode.number] = {inode.mode, inode.group};
      return true;
    });
    return known == true ? std::optional(owners) : std::nullopt;
  }

  const std::unique_ptr<Exec> exec_ = NewHostExec();
  Disk disk_{512 * kMiB};
};

TEST_P(InodeScanTest, SeesWhatHasANameAndNothingElse) {
  EXPECT_EQ(ByInode(), ByName(disk_.mount_point()));
  {  // a file that is open and has no name any more
    const std::string path = at("folder-3/3");
    const UniqueFd open_file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(unlink(path.c_str()), 0);
    EXPECT_EQ(ByInode(), ByName(disk_.mount_point()));
  }
  ASSERT_OK(disk_.Unmount());
  Mount();
  EXPECT_EQ(ByInode(), ByName(disk_.mount_point()));
}

// Nothing is written to the disk in between, so the scan must see what is only in memory.
TEST_P(InodeScanTest, SeesEveryChangeAtOnce) {
  for (int i = 0; i < 200; ++i) {
    const std::string path = at(fmt::format("folder-{}/{}", i % 40, 1 + i % 4));
    ASSERT_EQ(lchown(path.c_str(), 0, static_cast<gid_t>(kGroup + i)), 0);
    ASSERT_EQ(chmod(path.c_str(), static_cast<mode_t>(i)), 0);
    struct stat st;
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    int seen = 0;
    ASSERT_EQ(
        ScanInodes([&](const InodeOwner& inode) {
          if (inode.number == st.st_ino && inode.group == st.st_gid && inode.mode == st.st_mode) {
            ++seen;
          }
          return true;
        }),
        true);
    ASSERT_EQ(seen, 1) << path;
    MakeFile(at(fmt::format("new-{}", i)));
    if (i % 50 == 0) ASSERT_EQ(ByInode(), ByName(disk_.mount_point()));
  }
}

TEST_P(InodeScanTest, OneThatDiffersIsEnough) {
  EXPECT_EQ(ScanInodes([](const InodeOwner& inode) { return inode.group != kGroup; }), false);
  EXPECT_EQ(ScanInodes([](const InodeOwner& inode) { return inode.group < kGroup + 1; }), true);
}

TEST_P(InodeScanTest, AVolumeIsMendedWhoseRootIsRight) {
  ASSERT_OK(ApplyFsGroup(disk_.mount_point(), {.group = kGroup}));
  ASSERT_EQ(chmod(at("folder-20/21").c_str(), 0600), 0);
  ASSERT_EQ(lchown(at("link").c_str(), 0, 0), 0);
  ASSERT_OK(ApplyFsGroup(disk_.mount_point(), {.group = kGroup}));
  struct stat st;
  ASSERT_EQ(stat(at("folder-20/21").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0660U);
  ASSERT_EQ(lstat(at("link").c_str(), &st), 0);
  EXPECT_EQ(st.st_gid, kGroup);
}

TEST_P(InodeScanTest, DoesNotKnowOfAFolderInside) {
  EXPECT_EQ(HoldsForEveryInode(
                Open(at("folder-1")).get(), [](const InodeOwner&) { return true; }, nullptr),
            std::nullopt);
}

TEST_P(InodeScanTest, DoesNotKnowWhatItWasNotLetReadToTheEnd) {
  for (int i = 0; i < 5000; ++i) MakeFile(at(fmt::format("file-{}", i)));
  EXPECT_EQ(ScanInodes([](const InodeOwner&) { return true; }, [] { return true; }), std::nullopt);
}

std::vector<std::string> Ext(std::vector<std::string> options) {
  options.insert(options.begin(), {"mkfs.ext4", "-q", "-F"});
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    All, InodeScanTest,
    testing::Values(Layout{"ext4", Ext({})}, Layout{"ext4_small_blocks", Ext({"-b", "1024"})},
                    Layout{"ext4_many_groups", Ext({"-g", "8192"})},
                    Layout{"ext4_large_inodes", Ext({"-I", "1024"})},
                    Layout{"ext4_small_inodes", Ext({"-I", "128"})},
                    Layout{"ext4_without_checksums", Ext({"-O", "^metadata_csum,^uninit_bg"})},
                    Layout{"ext4_group_checksums", Ext({"-O", "^metadata_csum,uninit_bg"})},
                    Layout{"ext4_without_64bit", Ext({"-O", "^64bit"})},
                    Layout{"ext4_without_journal", Ext({"-O", "^has_journal"})},
                    Layout{"ext4_orphan_file", Ext({"-O", "orphan_file"})},
                    Layout{"ext4_bigalloc", Ext({"-O", "bigalloc"})},
                    Layout{"ext4_inline_data", Ext({"-O", "inline_data"})},
                    Layout{"ext3", {"mkfs.ext3", "-q", "-F"}},
                    Layout{"ext2", {"mkfs.ext2", "-q", "-F"}},
                    Layout{"xfs", {"mkfs.xfs", "-q", "-f"}},
                    Layout{"xfs_without_large_folders",
                           {"mkfs.xfs", "-q", "-f", "-i", "nrext64=0"}}),
    [](const auto& info) { return info.param.name; });

class NoInodeScanTest : public InodeScanTest {
 protected:
  void SetUp() override { Format(GetParam().mkfs); }
};

TEST_P(NoInodeScanTest, IsLeftToAWalk) {
  EXPECT_EQ(ScanInodes([](const InodeOwner&) { return true; }), std::nullopt);
  MakeFile(at("file"), 0600);
  ASSERT_OK(ApplyFsGroup(disk_.mount_point(), {.group = kGroup}));
  ASSERT_EQ(chmod(at("file").c_str(), 0600), 0);
  ASSERT_OK(ApplyFsGroup(disk_.mount_point(), {.group = kGroup}));
  struct stat st;
  ASSERT_EQ(stat(at("file").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0660U);
}

INSTANTIATE_TEST_SUITE_P(
    All, NoInodeScanTest,
    testing::Values(Layout{"btrfs", {"mkfs.btrfs", "-q", "-f"}},
                    Layout{"ext4_meta_block_groups", Ext({"-O", "meta_bg,^resize_inode"})},
                    // 130,000 inodes, none marked as unused, and few files.
                    Layout{"ext4_large_tables",
                           Ext({"-O", "^metadata_csum,^uninit_bg", "-i", "4096"})}),
    [](const auto& info) { return info.param.name; });

// The file system says 0, and a look through the mount shows 100000.
TEST(InodeScan, DoesNotKnowOfAMountThatMapsGroups) {
  Disk disk(64 * kMiB);
  const auto exec = NewHostExec();
  ASSERT_OK(RunOk(*exec, {.argv = {"mkfs.ext4", "-q", "-F", disk.device()}}));
  ASSERT_OK(disk.Mount("ext4"));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) == 0) pause();
    _exit(1);
  }
  const std::string proc = fmt::format("/proc/{}", child);
  struct stat ours, other;
  ASSERT_EQ(stat("/proc/self/ns/user", &ours), 0);
  do {
    ASSERT_EQ(stat((proc + "/ns/user").c_str(), &other), 0);
  } while (ours.st_ino == other.st_ino);
  for (const char* map : {"/uid_map", "/gid_map"}) std::ofstream(proc + map) << "0 100000 65536";
  const UniqueFd users(open((proc + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd mapped(static_cast<int>(syscall(
      SYS_open_tree, AT_FDCWD, disk.mount_point().c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  struct mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<uint64_t>(users.get());
  const long set =
      syscall(SYS_mount_setattr, mapped.get(), "", AT_EMPTY_PATH, &attributes, sizeof(attributes));
  const int error = errno;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(set, 0) << strerror(error);
  struct stat st;
  ASSERT_EQ(fstatat(mapped.get(), "", &st, AT_EMPTY_PATH), 0);
  ASSERT_EQ(st.st_gid, 100'000U);
  const auto all = [](const InodeOwner&) { return true; };
  EXPECT_EQ(HoldsForEveryInode(mapped.get(), all, nullptr), std::nullopt);
  const UniqueFd plain(open(disk.mount_point().c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(HoldsForEveryInode(plain.get(), all, nullptr), true);
}

}  // namespace
}  // namespace berth::platform
