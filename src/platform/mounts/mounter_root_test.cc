#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/mounts/safe_path.h"
#include "platform/walks/ownership.h"
#include "platform/walks/usage.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::Contains;

class MounterTest : public testing::Test {
 protected:
  MounterTest() {
    for (const char* name : {"a", "b"}) EXPECT_TRUE(MakeFolders(folder_ / name, 0755).ok());
  }
  base::Status Tmpfs(const std::string& target, std::vector<std::string> options = {}) {
    return mounter_->Mount(
        {.source = "tmpfs", .target = target, .fs_type = "tmpfs", .options = std::move(options)});
  }
  base::Status Bind(const std::string& source, const std::string& target,
                    std::vector<std::string> options) {
    options.push_back("bind");
    return mounter_->Mount({.source = source, .target = target, .options = std::move(options)});
  }
  // A copy of the table's line, or an empty entry.
  MountEntry Entry(const std::string& target) {
    const auto table = mounter_->List();
    EXPECT_TRUE(table.ok()) << base::ToString(table.status());
    const MountEntry* entry = table.ok() ? FindMount(*table, target) : nullptr;
    return entry == nullptr ? MountEntry{} : *entry;
  }
  const TempFolder folder_;
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  const std::string a_ = folder_ / "a", b_ = folder_ / "b";
};

TEST_F(MounterTest, MountsAndUnmounts) {
  const base::Status status = Tmpfs(a_, {"nosuid", "size=1m", "mode=0700"});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  const MountEntry entry = Entry(a_);
  EXPECT_EQ(entry.fs_type, "tmpfs");
  EXPECT_THAT(entry.options, Contains("nosuid"));
  EXPECT_THAT(entry.super_options, Contains("size=1024k"));
  EXPECT_EQ(GetFileSystemUsage(a_)->total_bytes, 1 << 20);
  EXPECT_TRUE(mounter_->Unmount(a_).ok());
  EXPECT_EQ(Entry(a_).id, 0u);
  EXPECT_TRUE(mounter_->Unmount(a_).ok());
  EXPECT_TRUE(mounter_->Unmount(folder_ / "none").ok());
}

TEST_F(MounterTest, AFaultStopsAMountOrComesAfterIt) {
  {
    const base::FakeFaults faults("platform.mount.before=error@1,platform.mount.after=error@1");
    EXPECT_EQ(Tmpfs(a_, {}).code(), base::StatusCode::kInternal);
    EXPECT_EQ(Entry(a_).id, 0u);
    EXPECT_EQ(Tmpfs(a_, {}).code(), base::StatusCode::kInternal);
    EXPECT_NE(Entry(a_).id, 0u);
  }
  const base::FakeFaults faults("platform.unmount.after=error@1");
  EXPECT_EQ(mounter_->Unmount(a_).code(), base::StatusCode::kInternal);
  EXPECT_EQ(Entry(a_).id, 0u);
}

TEST_F(MounterTest, NamesWhatFailed) {
  const base::Status status =
      mounter_->Mount({.source = "/dev/none", .target = a_, .fs_type = "ext4"});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(base::Message(status),
            "mount ext4 '/dev/none' at '" + a_ + "': No such file or directory");
  EXPECT_EQ(Tmpfs("relative").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(mounter_->Mount({.source = "x", .target = a_}).code(), StatusCode::kInvalidArgument);
}

TEST_F(MounterTest, DoesNotMountThroughASymlink) {
  ASSERT_EQ(symlink("a", (folder_ / "link").c_str()), 0);
  EXPECT_FALSE(Tmpfs(folder_ / "link").ok());
  EXPECT_EQ(Entry(a_).id, 0u);
}

TEST_F(MounterTest, ABusyMountStays) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  base::UniqueFd open_file(open((a_ + "/f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(mounter_->Unmount(a_).code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Entry(a_).id, 0u);
  EXPECT_TRUE(mounter_->UnmountLazy(a_).ok());
  EXPECT_EQ(Entry(a_).id, 0u);
}

TEST_F(MounterTest, AReadOnlyBindRefusesWritesAndTheSourceDoesNot) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  const base::Status status = Bind(a_, b_, {"ro", "nodev"});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_TRUE(Entry(b_).read_only());
  EXPECT_THAT(Entry(b_).options, Contains("nodev"));
  EXPECT_FALSE(Entry(a_).read_only());
  EXPECT_FALSE(WriteDurably<"test.file">(b_ + "/x", "x").ok());
  EXPECT_TRUE(WriteDurably<"test.file">(a_ + "/x", "x").ok());
  EXPECT_EQ(*ReadFile(b_ + "/x"), "x");
}

TEST_F(MounterTest, ARecursiveReadOnlyBindIsReadOnlyAllTheWay) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  ASSERT_TRUE(MakeFolders(a_ + "/in").ok());
  ASSERT_TRUE(Tmpfs(a_ + "/in").ok());
  ASSERT_TRUE(Bind(a_, b_, {"rbind", "ro"}).ok());
  EXPECT_TRUE(Entry(b_).read_only());
  EXPECT_TRUE(Entry(b_ + "/in").read_only());
}

// A kernel before 5.12, or a seccomp filter that does not know the new calls.
class OldKernelTest : public MounterTest {
 protected:
  // Runs `body` on a thread for which open_tree fails with `error`.
  static void Without(int error, const std::function<void()>& body) {
    std::jthread([&] {
      const std::array<sock_filter, 4> code = {{
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open_tree, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      }};
      sock_fprog program = {.len = code.size(), .filter = const_cast<sock_filter*>(code.data())};
      ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
      ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
      body();
    }).join();
  }
};

TEST_F(OldKernelTest, ReadOnlyBindsStillWork) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  for (const int error : {ENOSYS, EPERM}) {
    Without(error, [&] {
      const base::Status status = Bind(a_, b_, {"ro", "rslave"});
      EXPECT_TRUE(status.ok()) << base::ToString(status);
    });
    EXPECT_TRUE(Entry(b_).read_only());
    EXPECT_FALSE(Entry(a_).read_only());
    ASSERT_TRUE(mounter_->Unmount(b_).ok());
  }
}

TEST_F(OldKernelTest, ARecursiveReadOnlyBindIsRefusedRatherThanHalfWritable) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  Without(ENOSYS, [&] { EXPECT_FALSE(Bind(a_, b_, {"rbind", "ro"}).ok()); });
  EXPECT_EQ(Entry(b_).id, 0u);
}

TEST_F(MounterTest, ANewMountTakesItsPropagation) {
  const base::Status status = Tmpfs(a_, {"rshared"});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_THAT(Entry(a_).propagation, Contains(testing::StartsWith("shared:")));
}

TEST_F(MounterTest, BindsFilesAndDescriptors) {
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/file", "content").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(b_ + "/target", "").ok());
  const auto root = OpenFolder(a_);
  ASSERT_TRUE(root.ok());
  const auto file = OpenBeneath(root->get(), "file");
  ASSERT_TRUE(file.ok());
  const base::Status status = Bind(ProcPath(*file), b_ + "/target", {});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_EQ(*ReadFile(b_ + "/target"), "content");
}

TEST_F(MounterTest, RemountsReadOnly) {
  ASSERT_TRUE(Tmpfs(a_).ok());
  ASSERT_TRUE(mounter_->Mount({.source = "", .target = a_, .options = {"remount", "ro"}}).ok());
  EXPECT_TRUE(Entry(a_).read_only());
}

TEST_F(MounterTest, MakeSharedBindsAFolderOntoItselfOnce) {
  const base::Status status = mounter_->MakeShared(a_);
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  const MountEntry first = Entry(a_);
  EXPECT_THAT(first.propagation, Contains(testing::StartsWith("shared:")));
  ASSERT_TRUE(mounter_->MakeShared(a_).ok());
  EXPECT_EQ(Entry(a_).id, first.id);
}

TEST_F(MounterTest, PropagationGoesWhereItIsAskedTo) {
  ASSERT_TRUE(mounter_->MakeShared(a_).ok());
  ASSERT_TRUE(MakeFolders(a_ + "/in").ok());
  ASSERT_TRUE(Bind(a_, b_, {"rslave"}).ok());
  EXPECT_THAT(Entry(b_).propagation, Contains(testing::StartsWith("master:")));
  ASSERT_TRUE(Tmpfs(a_ + "/in").ok());
  EXPECT_EQ(Entry(b_ + "/in").fs_type, "tmpfs");
  ASSERT_TRUE(mounter_->Unmount(a_ + "/in").ok());
  EXPECT_EQ(Entry(b_ + "/in").id, 0u);
  ASSERT_TRUE(Tmpfs(b_ + "/in").ok());
  EXPECT_EQ(Entry(a_ + "/in").id, 0u);
}

TEST_F(MounterTest, RemoveTreeTouchesNothingWhereSomethingIsMounted) {
  ASSERT_TRUE(MakeFolders(a_ + "/in").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/file", "x").ok());
  ASSERT_TRUE(Tmpfs(a_ + "/in").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/in/data", "x").ok());
  EXPECT_EQ(RemoveTree(a_).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(RemoveTree(a_ + "/in").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*ReadFile(a_ + "/in/data"), "x");
  EXPECT_EQ(*ReadFile(a_ + "/file"), "x");
  // Also where the path is spelled through a symlink, which the mount table does not show.
  ASSERT_EQ(symlink(folder_.path().c_str(), (folder_ / "self").c_str()), 0);
  EXPECT_EQ(RemoveTree(folder_ / "self/a").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*ReadFile(a_ + "/in/data"), "x");
}

TEST_F(MounterTest, FsGroupStaysWithinItsMount) {
  ASSERT_TRUE(MakeFolders(a_ + "/in").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/file", "x").ok());
  ASSERT_TRUE(Bind(b_, a_ + "/in", {}).ok());
  ASSERT_TRUE(WriteDurably<"test.file">(b_ + "/other", "x").ok());
  ASSERT_EQ(symlink("in/other", (a_ + "/link").c_str()), 0);
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/setuid", "x").ok());
  ASSERT_EQ(chmod((a_ + "/setuid").c_str(), 04755), 0);
  ASSERT_TRUE(WriteDurably<"test.file">(a_ + "/onto", "x").ok());
  ASSERT_TRUE(Bind(b_ + "/other", a_ + "/onto", {}).ok());
  const base::Status status = ApplyFsGroup(a_, {.group = 4242, .exclusive = true});
  ASSERT_TRUE(status.ok()) << base::ToString(status);
  const auto stat_of = [](const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0);
    return st;
  };
  EXPECT_EQ(stat_of(a_).st_gid, 4242u);
  EXPECT_EQ(stat_of(a_).st_mode & 07777, 02775u);
  EXPECT_EQ(stat_of(a_ + "/file").st_gid, 4242u);
  EXPECT_EQ(stat_of(a_ + "/link").st_gid, 4242u);
  EXPECT_EQ(stat_of(a_ + "/setuid").st_mode & 07777, 04775u);
  EXPECT_EQ(stat_of(b_ + "/other").st_gid, 0u);
  EXPECT_EQ(stat_of(b_).st_gid, 0u);
}

}  // namespace
}  // namespace berth::platform
