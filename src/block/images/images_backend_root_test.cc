// Images of a folder as real loop devices, with their locks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>

#include "base/assert_ok.h"
#include "base/fake_faults.h"
#include "block/backend.h"
#include "block/images/image_lock.h"
#include "block/sizes.h"
#include "platform/devices/loop_device.h"
#include "platform/devices/loop_table.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::SizeIs;

// Others act just before or just after the next look at the mount table.
class WatchedMounter : public platform::Mounter {
 public:
  explicit WatchedMounter(platform::Mounter& mounter) : mounter_(mounter) {}

  std::function<void()> before_list, after_list;

  base::StatusOr<std::vector<platform::MountEntry>> List() override {
    if (before_list) std::exchange(before_list, nullptr)();
    auto table = mounter_.List();
    if (after_list) std::exchange(after_list, nullptr)();
    return table;
  }
  base::Status Mount(const platform::MountRequest& request) override {
    return mounter_.Mount(request);
  }
  base::Status Unmount(std::string_view target) override { return mounter_.Unmount(target); }
  base::Status UnmountLazy(std::string_view target) override {
    return mounter_.UnmountLazy(target);
  }
  base::Status MakeShared(std::string_view folder) override { return mounter_.MakeShared(folder); }

 private:
  platform::Mounter& mounter_;
};

// Shows each mount with the type and options of another one.
class DisguisedMounter : public WatchedMounter {
 public:
  DisguisedMounter(platform::Mounter& mounter, std::string type, std::vector<std::string> options)
      : WatchedMounter(mounter), type_(std::move(type)), options_(std::move(options)) {}

  base::StatusOr<std::vector<platform::MountEntry>> List() override {
    ASSIGN_OR_RETURN(auto table, WatchedMounter::List());
    for (platform::MountEntry& entry : table) {
      entry.fs_type = type_;
      entry.super_options = options_;
    }
    return table;
  }

 private:
  const std::string type_;
  const std::vector<std::string> options_;
};

class ImagesBackendTest : public testing::Test {
 protected:
  ImagesBackendTest() {
    images_ = folder_ / "images";
    EXPECT_EQ(mkdir(images_.c_str(), 0755), 0);
    one_ = Open("one");
    two_ = Open("two");
  }
  ~ImagesBackendTest() override {
    for (const auto& backend : {one_.get(), two_.get()}) {
      const auto mappings = backend->ListMappings();
      for (const Mapping& mapping : *mappings) {
        EXPECT_TRUE(mounter_->UnmountLazy(mount_).ok());
        EXPECT_TRUE(backend->Unmap(mapping).ok()) << mapping.device;
      }
    }
  }
  std::unique_ptr<Backend> Open(const std::string& node) { return Open(node, *mounter_); }
  std::unique_ptr<Backend> Open(const std::string& node, platform::Mounter& mounter) {
    auto backend =
        OpenBackend({{"images", {{"folder", images_}}}},
                    {.exec = *exec_, .mounter = mounter, .proxy_socket = "", .node = node});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  void Mount(const Mapping& mapping, const std::string& type = "ext4") {
    ASSERT_OK(platform::FormatIfBlank(*exec_, mapping.device, type, {}));
    ASSERT_OK(platform::MakeFolders(mount_));
    ASSERT_OK(mounter_->Mount({.source = mapping.device, .target = mount_, .fs_type = type}));
  }

  const platform::TempFolder folder_;
  std::string images_;
  const std::string mount_ = folder_ / "mount";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<Backend> one_, two_;
};

TEST_F(ImagesBackendTest, AnImageIsMappedFoundAgainAndUnmapped) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = 16 * kMiB}));
  EXPECT_FALSE(one_->FindMapping("pvc-1")->has_value());
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_EQ(mapping->size_bytes, 16 * kMiB);
  EXPECT_FALSE(mapping->read_only);
  EXPECT_EQ(one_->Map("pvc-1", {})->device, mapping->device);
  one_ = Open("one");
  ASSERT_TRUE(one_->FindMapping("pvc-1")->has_value());
  EXPECT_EQ(one_->FindMapping("pvc-1")->value().state, mapping->state);
  EXPECT_THAT(*one_->ListMappings(), SizeIs(1));
  EXPECT_THAT(*two_->ListMappings(), SizeIs(0));
  ASSERT_OK(one_->Grow("pvc-1", 32 * kMiB));
  EXPECT_EQ(one_->Refresh(*mapping)->size_bytes, 32 * kMiB);
  ASSERT_OK(one_->Check(*mapping));
  ASSERT_OK(one_->Unmap(*mapping));
  ASSERT_OK(one_->Unmap(*mapping));
  EXPECT_EQ(one_->Check(*mapping).code(), StatusCode::kDataLoss);
  EXPECT_FALSE(one_->FindMapping("pvc-1")->has_value());
  EXPECT_FALSE(*one_->HasLock("pvc-1"));
}

TEST_F(ImagesBackendTest, AMappedDeviceIsNeverTakenForAnotherImages) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_OK(one_->Unmap(*mapping));
  // The kernel gives the same device to another image; the old mapping is nobody's any more.
  ASSERT_OK(one_->Create({.name = "pvc-2", .size_bytes = kMiB}));
  const auto other = one_->Map("pvc-2", {});
  ASSERT_OK(other);
  ASSERT_OK(one_->Unmap(*mapping));
  ASSERT_OK(one_->ForceUnmap(*mapping, std::chrono::seconds(5)));
  EXPECT_TRUE(one_->FindMapping("pvc-2")->has_value());
  EXPECT_EQ(one_->Refresh(*mapping).status().code(), StatusCode::kNotFound);
}

TEST_F(ImagesBackendTest, TwoNodesNeverWriteToOneImage) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_TRUE(*two_->HasLock("pvc-1"));
  for (const bool read_only : {false, true}) {
    const auto refused = two_->Map("pvc-1", {.read_only = read_only});
    EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(refused.status()), HasSubstr(mapping->device));
    EXPECT_THAT(base::Message(refused.status()), HasSubstr("node 'one'"));
  }
  ASSERT_OK(one_->Unmap(*mapping));
  ASSERT_OK(two_->Map("pvc-1", {}));
}

TEST_F(ImagesBackendTest, AMappingTellsItsOwnLockFromAnothers) {
  ASSERT_OK(one_->Create({.name = "pv-1", .size_bytes = 32 * kMiB}));
  const auto first = one_->Map("pv-1", {});
  ASSERT_OK(first);
  EXPECT_TRUE(*one_->HoldsLock(*first));
  EXPECT_TRUE(one_->KeepsLocks());
  ASSERT_OK(one_->Unmap(*first));
  EXPECT_FALSE(*one_->HoldsLock(*first)) << "the device is gone";
  const auto second = two_->Map("pv-1", {});
  ASSERT_OK(second);
  EXPECT_TRUE(*two_->HoldsLock(*second));
  // The other's mapping may even have the same device by now, but its lock is not this node's.
  EXPECT_FALSE(*one_->HoldsLock(*second));
  ASSERT_OK(two_->Unmap(*second));
}

TEST_F(ImagesBackendTest, ReadersShareAnImageAndKeepWritersOut) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto mapping = one_->Map("pvc-1", {.read_only = true});
  ASSERT_OK(mapping);
  EXPECT_TRUE(mapping->read_only);
  ASSERT_OK(two_->Map("pvc-1", {.read_only = true}));
  EXPECT_EQ(one_->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  const base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(!device.valid() || pwrite(device.get(), "x", 1, 0) < 0);
}

TEST_F(ImagesBackendTest, SeveralNodesMayWriteWhereTheFileSystemIsMadeForIt) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  ASSERT_OK(one_->Map("pvc-1", {.shared_writers = true}));
  ASSERT_OK(two_->Map("pvc-1", {.shared_writers = true}));
  EXPECT_EQ(one_->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(one_->CreateSnapshot("pvc-1", "snap").status().code(), StatusCode::kFailedPrecondition);
}

// The lock is the open file's, which the loop device holds on to.
TEST_F(ImagesBackendTest, TheLockOutlivesTheProcessThatMadeTheMapping) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const pid_t pid = fork();
  if (pid == 0) {
    const bool mapped = Open("one")->Map("pvc-1", {}).ok();
    kill(getpid(), mapped ? SIGKILL : SIGTERM);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_TRUE(*two_->HasLock("pvc-1"));
  EXPECT_EQ(two_->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  const auto found = one_->FindMapping("pvc-1");
  ASSERT_TRUE(found.ok() && found->has_value());
  ASSERT_OK(one_->Unmap(**found));
  EXPECT_FALSE(*two_->HasLock("pvc-1"));
}

TEST_F(ImagesBackendTest, AnImageThatSomebodyElseAttachedIsNotMapped) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto loop = platform::AttachLoop(images_ + "/pvc-1", {});
  ASSERT_OK(loop);
  const auto refused = one_->Map("pvc-1", {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused.status()), HasSubstr(loop->path));
  ASSERT_OK(platform::DetachLoop(*loop));
  ASSERT_OK(one_->Map("pvc-1", {}));
}

TEST_F(ImagesBackendTest, AMappedImageIsNotDeletedNorCopiedWhileItIsWritten) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = 64 * kMiB}));
  auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  std::ofstream(mount_ + "/file") << "precious";
  EXPECT_EQ(one_->Unmap(*mapping).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(two_->Delete("pvc-1").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(two_->CreateSnapshot("pvc-1", "snap").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      two_->Create({.name = "pvc-2", .size_bytes = 64 * kMiB, .source = "pvc-1"}).status().code(),
      StatusCode::kFailedPrecondition);
  EXPECT_THAT(*one_->List(), SizeIs(1));
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(one_->Unmap(*mapping));
  ASSERT_OK(two_->CreateSnapshot("pvc-1", "snap"));
  ASSERT_OK(two_->Create({.name = "pvc-2", .size_bytes = 96 * kMiB, .source = "snap"}));
  ASSERT_OK(one_->Delete("pvc-1"));
  EXPECT_EQ(one_->Map("snap", {}).status().code(), StatusCode::kFailedPrecondition);
  mapping = one_->Map("pvc-2", {});
  ASSERT_OK(mapping);
  EXPECT_EQ(mapping->size_bytes, 96 * kMiB);
  Mount(*mapping);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  ASSERT_OK(mounter_->Unmount(mount_));
}

TEST_F(ImagesBackendTest, AForcedUnmapFailsWritesOfWhateverHasItOpen) {
  for (const std::string type : {"ext4", "xfs"}) {
    const std::string image = "pvc-" + type;
    ASSERT_OK(one_->Create({.name = image, .size_bytes = 320 * kMiB}));
    const auto mapping = one_->Map(image, {});
    ASSERT_OK(mapping);
    Mount(*mapping, type);
    base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(write(file.get(), "a", 1), 1);
    ASSERT_EQ(fsync(file.get()), 0);
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_OK(one_->ForceUnmap(*mapping, std::chrono::seconds(5)));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
    EXPECT_TRUE(write(file.get(), "b", 1) < 0 || fsync(file.get()) < 0) << type;
    EXPECT_FALSE(one_->FindMapping(image)->has_value());
    // Until its last user lets go, the kernel has it, and so its lock.
    EXPECT_TRUE(*two_->HasLock(image));
    file.Reset();
    ASSERT_OK(mounter_->UnmountLazy(mount_));
    EXPECT_FALSE(*two_->HasLock(image)) << type;
    ASSERT_OK(one_->ForceUnmap(*mapping, std::chrono::seconds(5)));
  }
}

TEST_F(ImagesBackendTest, NobodyMapsASnapshotThatIsBeingDeleted) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  ASSERT_OK(one_->CreateSnapshot("pvc-1", "snap"));
  const auto mapping = two_->Map("snap", {.read_only = true});
  ASSERT_OK(mapping);
  EXPECT_EQ(one_->Delete("snap").code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(two_->Unmap(*mapping));
  // The deletion stands still before its first change, and holds the lock by then.
  const base::FakeFaults faults("block.image_record.write.before=delay:3000");
  std::atomic<bool> ended = false;
  std::jthread deletion([&] {
    EXPECT_TRUE(one_->Delete("snap").ok());
    ended = true;
  });
  bool locked = false;
  while (!locked && !ended) locked = two_->HasLock("snap").value_or(false);
  EXPECT_TRUE(locked) << "a snapshot can be mapped while it is deleted";
  if (locked) {
    EXPECT_EQ(two_->Map("snap", {.read_only = true}).status().code(),
              StatusCode::kFailedPrecondition);
  }
}

// The kernel gives the number to another image before the mounts are looked at, or after.
TEST_F(ImagesBackendTest, AForcedUnmapLeavesWhateverHasItsNumberMeanwhile) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  ASSERT_OK(one_->Create({.name = "pvc-2", .size_bytes = 64 * kMiB}));
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before ? "before" : "after");
    WatchedMounter mounter(*mounter_);
    const auto forcing = Open("one", mounter);
    bool met = false;
    for (int i = 0; i < 20 && !met; ++i) {  // others on this machine may get the number
      const auto mapping = one_->Map("pvc-1", {});
      ASSERT_OK(mapping);
      base::StatusOr<Mapping> other;
      (before ? mounter.before_list : mounter.after_list) = [&] {
        ASSERT_OK(one_->Unmap(*mapping));
        other = one_->Map("pvc-2", {});
        ASSERT_OK(other);
        Mount(*other);
      };
      ASSERT_OK(forcing->ForceUnmap(*mapping, std::chrono::seconds(5)));
      met = other->device == mapping->device;
      base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      EXPECT_TRUE(write(file.get(), "a", 1) == 1 && fsync(file.get()) == 0);
      file.Reset();
      ASSERT_OK(mounter_->Unmount(mount_));
      ASSERT_TRUE(one_->FindMapping("pvc-2")->has_value());
      ASSERT_OK(one_->Unmap(*other));
    }
    EXPECT_TRUE(met);
  }
}

// Where a mount was is then a folder of another file system.
TEST_F(ImagesBackendTest, AForcedUnmapLeavesWhatIsBelowAMountThatIsGone) {
  for (const std::string image : {"below", "pvc-1"}) {
    ASSERT_OK(one_->Create({.name = image, .size_bytes = 64 * kMiB}));
  }
  const auto below = one_->Map("below", {});
  ASSERT_OK(below);
  Mount(*below);
  const std::string inner = mount_ + "/inner";
  ASSERT_OK(platform::MakeFolders(inner));
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_OK(platform::FormatIfBlank(*exec_, mapping->device, "ext4", {}));
  ASSERT_OK(mounter_->Mount({.source = mapping->device, .target = inner, .fs_type = "ext4"}));
  WatchedMounter mounter(*mounter_);
  mounter.after_list = [&] { ASSERT_OK(mounter_->Unmount(inner)); };
  ASSERT_OK(Open("one", mounter)->ForceUnmap(*mapping, std::chrono::seconds(5)));
  EXPECT_FALSE(one_->FindMapping("pvc-1")->has_value());
  const base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(write(file.get(), "a", 1) == 1 && fsync(file.get()) == 0);
}

TEST_F(ImagesBackendTest, AForcedUnmapFailsWritesToARawDevice) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
  alignas(4096) static char block[4096] = "x";
  ASSERT_EQ(pwrite(device.get(), block, sizeof block, 0), 4096);
  ASSERT_OK(one_->ForceUnmap(*mapping, std::chrono::seconds(5)));
  EXPECT_LT(pwrite(device.get(), block, sizeof block, 0), 0);
  device.Reset();
  EXPECT_FALSE(*two_->HasLock("pvc-1"));
}

TEST_F(ImagesBackendTest, AFolderWhoseLocksStayOnTheNodeServesNoNewUse) {
  ASSERT_OK(one_->Create({.name = "pvc-1", .size_bytes = kMiB}));
  const auto mapping = one_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  DisguisedMounter mounter(*mounter_, "nfs", {"rw", "vers=3", "nolock", "local_lock=all"});
  const auto refused = Open("one", mounter);
  for (const base::Status& status :
       {refused->ExchangeLocks("uid-1"), refused->List().status(),
        refused->Create({.name = "pvc-2", .size_bytes = kMiB}).status(),
        refused->CreateSnapshot("pvc-1", "snap-1").status(),
        refused->Grow("pvc-1", 2 * kMiB).status(), refused->Map("pvc-1", {}).status(),
        refused->Delete("pvc-1")}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(base::Message(status)), HasSubstr("NFS is mounted with nolock"));
  }
  EXPECT_EQ(refused->ProveLocks("uid-1", api::NodeName("two")).code(), StatusCode::kUnimplemented);
  // A mapping that is in use goes on, and can be ended.
  EXPECT_TRUE(*refused->HasLock("pvc-1"));
  ASSERT_OK(refused->Check(*mapping));
  ASSERT_OK(refused->Refresh(*mapping));
  ASSERT_OK(refused->Unmap(*mapping));
}

TEST_F(ImagesBackendTest, NoLockProvesSomethingOnlyOnceALockOfTheNodeWasSeen) {
  // Two nodes that mount one NFS export by different addresses.
  DisguisedMounter mounter1(*mounter_, "nfs4", {"rw", "vers=4.2", "clientaddr=10.0.0.1"});
  DisguisedMounter mounter2(*mounter_, "nfs4", {"rw", "vers=4.2", "clientaddr=10.0.0.2"});
  const api::NodeName two("two");
  const auto one = Open("one", mounter1);
  EXPECT_EQ(one->ProveLocks("uid-1", two).code(), StatusCode::kFailedPrecondition);
  {
    const auto other = Open("two", mounter2);
    ASSERT_OK(other->ExchangeLocks("uid-1"));
    EXPECT_EQ(one->ProveLocks("uid-1", two).code(), StatusCode::kFailedPrecondition);
    ASSERT_OK(one->ExchangeLocks("uid-1"));
  }
  // Its agent died.
  ASSERT_OK(one->ProveLocks("uid-1", two));
  EXPECT_EQ(one->ProveLocks("uid-2", two).code(), StatusCode::kFailedPrecondition)
      << "another cluster, which has nodes of its own";
  EXPECT_EQ(one->ProveLocks("uid-1", api::NodeName("three")).code(),
            StatusCode::kFailedPrecondition);
  // Node two has another mount now, and nobody saw its locks.
  DisguisedMounter mounter3(*mounter_, "nfs4", {"rw", "vers=4.0", "clientaddr=10.0.0.2"});
  const auto again = Open("two", mounter3);
  ASSERT_OK(again->ExchangeLocks("uid-1"));
  EXPECT_EQ(one->ProveLocks("uid-1", two).code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(one->ExchangeLocks("uid-1"));
  ASSERT_OK(one->ProveLocks("uid-1", two));
  // The cluster is deleted.
  again->LeaveLocks("uid-1");
  one->LeaveLocks("uid-1");
  struct stat st;
  EXPECT_NE(stat((images_ + "/.berth/nodes").c_str(), &st), 0);
}

TEST_F(ImagesBackendTest, AMountThatLetsALoserWriteProvesNothing) {
  DisguisedMounter mounter1(*mounter_, "nfs", {"rw", "vers=3", "mountaddr=10.0.0.1"});
  DisguisedMounter mounter2(*mounter_, "nfs4", {"rw", "vers=4.2"});
  const auto one = Open("one", mounter1), two = Open("two", mounter2);
  ASSERT_OK(one->ExchangeLocks("uid-1"));
  ASSERT_OK(two->ExchangeLocks("uid-1"));
  ASSERT_OK(one->ExchangeLocks("uid-1"));
  const base::Status nfs3 = two->ProveLocks("uid-1", api::NodeName("one"));
  EXPECT_EQ(nfs3.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(nfs3)), HasSubstr("NFS 3"));
  // It is used all the same, because its locks keep others out while it has them.
  ASSERT_OK(one->Create({.name = "pvc-1", .size_bytes = kMiB}));
  ASSERT_OK(one->Map("pvc-1", {}));
  EXPECT_EQ(two->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ImagesBackendTest, AFolderOfThisMachineAloneNeedsNoHandshake) {
  ASSERT_OK(one_->ExchangeLocks("uid-1"));
  ASSERT_OK(one_->ProveLocks("uid-1", api::NodeName("two")));
  struct stat st;
  EXPECT_NE(stat((images_ + "/.berth/nodes").c_str(), &st), 0);
}

}  // namespace
}  // namespace berth::block
