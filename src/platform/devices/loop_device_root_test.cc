#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <linux/ioctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "base/unique_fd.h"
#include "platform/devices/fake_disk.h"
#include "platform/devices/loop_device.h"
#include "platform/devices/loop_table.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::platform {
namespace {

using base::StatusCode;

class LoopDeviceTest : public testing::Test {
 protected:
  ~LoopDeviceTest() override {
    for (const LoopDevice& loop : attached_) EXPECT_TRUE(DetachLoop(loop).ok()) << loop.path;
  }
  LoopDevice Attach(const std::string& image, const LoopOptions& options = {}) {
    auto loop = AttachLoop(image, options);
    EXPECT_TRUE(loop.ok()) << base::ToString(loop.status());
    if (!loop.ok()) return {};
    attached_.push_back(*loop);
    return *loop;
  }
  const TempFolder folder_;
  std::vector<LoopDevice> attached_;
};

TEST_F(LoopDeviceTest, AttachesByIdentityAndDetaches) {
  const std::string image = folder_.SparseFile("image", 8 << 20);
  const LoopDevice loop = Attach(image);
  EXPECT_EQ(loop.backing, *IdentifyFile(image));
  EXPECT_EQ(loop.size, 8u << 20);
  EXPECT_FALSE(loop.read_only);
  // A rename changes the name only.
  ASSERT_EQ(rename(image.c_str(), (folder_ / "renamed").c_str()), 0);
  const auto found = FindLoops(*IdentifyFile(folder_ / "renamed"), "renamed");
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].path, loop.path);
  EXPECT_EQ((*found)[0].device, loop.device);
  EXPECT_TRUE(DetachLoop(loop).ok());
  EXPECT_TRUE(FindLoops(loop.backing, "renamed")->empty());
  EXPECT_TRUE(DetachLoop(loop).ok());
}

TEST_F(LoopDeviceTest, ManyThreadsEachGetADeviceAtOnce) {
  constexpr size_t kThreads = 128;
  std::vector<base::StatusOr<LoopDevice>> loops(kThreads, base::Error(StatusCode::kUnknown, ""));
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::string image = folder_.SparseFile(fmt::format("image-{}", i), 1 << 20);
        const base::UniqueFd file(open(image.c_str(), O_RDWR | O_CLOEXEC));
        loops[i] = AttachLoop(file, {.label = image}, std::chrono::seconds(30));
      });
    }
  }
  std::set<std::string> paths;
  for (const auto& loop : loops) {
    EXPECT_TRUE(loop.ok()) << base::ToString(loop.status());
    if (!loop.ok()) continue;
    attached_.push_back(*loop);
    paths.insert(loop->path);
  }
  EXPECT_EQ(paths.size(), kThreads);
}

TEST_F(LoopDeviceTest, WritesReachTheImage) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const LoopDevice loop = Attach(image);
  const base::UniqueFd device(open(loop.path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(pwrite(device.get(), "data", 4, 0), 4);
  ASSERT_EQ(fsync(device.get()), 0);
  EXPECT_EQ(ReadFile(image)->substr(0, 4), "data");
}

TEST_F(LoopDeviceTest, ReadOnlyRefusesWrites) {
  const LoopDevice loop = Attach(folder_.SparseFile("image", 1 << 20), {.read_only = true});
  EXPECT_TRUE(loop.read_only);
  const base::UniqueFd device(open(loop.path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(!device.valid() || pwrite(device.get(), "data", 4, 0) < 0);
}

TEST_F(LoopDeviceTest, UsesDirectIoWhereTheFileSystemCan) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const base::UniqueFd direct(open(image.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const LoopDevice loop = Attach(image);
  EXPECT_EQ(loop.direct_io, direct.valid());
  EXPECT_FALSE(Attach(folder_.SparseFile("other", 1 << 20), {.direct_io = false}).direct_io);
}

TEST_F(LoopDeviceTest, DoesWithoutDirectIoWhereTheFileSystemCannot) {
  const auto mounter = NewMounter();
  ASSERT_TRUE(MakeFolders(folder_ / "ram").ok());
  ASSERT_TRUE(
      mounter->Mount({.source = "tmpfs", .target = folder_ / "ram", .fs_type = "tmpfs"}).ok());
  const LoopDevice loop = Attach(folder_.SparseFile("ram/image", 1 << 20));
  EXPECT_EQ(loop.size, 1u << 20);
  EXPECT_TRUE(DetachLoop(loop).ok());
}

TEST_F(LoopDeviceTest, KeepsTheBlockSizeItIsTold) {
  EXPECT_EQ(Attach(folder_.SparseFile("a", 1 << 20), {.block_size = 4096}).block_size, 4096u);
  EXPECT_EQ(Attach(folder_.SparseFile("b", 1 << 20), {.block_size = 512}).block_size, 512u);
}

TEST_F(LoopDeviceTest, GrowsWithItsImage) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const LoopDevice loop = Attach(image);
  ASSERT_EQ(truncate(image.c_str(), 2 << 20), 0);
  const auto size = RefreshLoopSize(loop);
  ASSERT_TRUE(size.ok()) << base::ToString(size.status());
  EXPECT_EQ(*size, 2u << 20);
  LoopDevice other = loop;
  ++other.backing.ino;
  EXPECT_EQ(RefreshLoopSize(other).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(LoopDeviceTest, StaysAttachedWhileSomeoneHasItOpen) {
  const LoopDevice loop = Attach(folder_.SparseFile("image", 1 << 20));
  base::UniqueFd user(open(loop.path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(DetachLoop(loop).code(), StatusCode::kFailedPrecondition);
  user.Reset();
  // It did not go with its last user, either.
  EXPECT_EQ(FindLoops(loop.backing, "image")->size(), 1u);
}

// "Device or resource busy" alone sends people looking where nothing is mounted.
TEST_F(LoopDeviceTest, SaysWhichMountNamespaceKeepsItBusy) {
  const LoopDevice loop = Attach(folder_.SparseFile("image", 16 << 20));
  ASSERT_TRUE(RunOk(*NewHostExec(), {.argv = {"mkfs.ext4", "-q", loop.path}}).ok());
  ASSERT_EQ(mkdir((folder_ / "there").c_str(), 0700), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool mounted =
        unshare(CLONE_NEWNS) == 0 && mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount(loop.path.c_str(), (folder_ / "there").c_str(), "ext4", 0, nullptr) == 0;
    if (write(ready[1], mounted ? "y" : "n", 1) == 1) pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  const base::Status busy = DetachLoop(loop);
  EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(busy)),
              testing::HasSubstr(fmt::format("mounted at '{}' in the mount namespace of process {}",
                                             folder_ / "there", child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  close(ready[1]);
}

// The name of a device may belong to another image by the time a record is read, which may be
// mounted then.
TEST_F(LoopDeviceTest, DetachesNoOtherImage) {
  const LoopDevice loop = Attach(folder_.SparseFile("image", 1 << 20));
  const auto sequence = ReadDiskSequence(loop.path);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  LoopDevice stale = loop;
  ++stale.backing.ino;
  for (const int exclusive : {0, O_EXCL}) {
    const base::UniqueFd user(open(loop.path.c_str(), O_RDONLY | O_CLOEXEC | exclusive));
    ASSERT_TRUE(user.valid());
    const base::Status by_image = DetachLoop(stale);
    EXPECT_TRUE(by_image.ok()) << by_image;
    const base::Status by_number = DetachLoop(loop, *sequence - 1, std::chrono::seconds(30));
    EXPECT_TRUE(by_number.ok()) << by_number;
    EXPECT_EQ(FindLoops(loop.backing, "image")->size(), 1u);
  }
}

TEST_F(LoopDeviceTest, ManyAttachAtOnceAndEachGetsItsOwn) {
  constexpr int kThreads = 8;
  std::vector<std::string> images;
  for (int i = 0; i < kThreads; ++i) {
    images.push_back(folder_.SparseFile(fmt::format("image{}", i), 1 << 20));
  }
  std::vector<base::StatusOr<LoopDevice>> results(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { results[i] = AttachLoop(images[i], {}); });
    }
  }
  for (size_t i = 0; i < kThreads; ++i) {
    ASSERT_TRUE(results[i].ok()) << base::ToString(results[i].status());
    attached_.push_back(*results[i]);
    EXPECT_EQ(FindLoops(*IdentifyFile(images[i]), fmt::format("image{}", i))->size(), 1u);
  }
}

// Lets this process have `count` more descriptors at most, as long as the object lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t count) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const base::UniqueFd lowest_free(dup(STDERR_FILENO));
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(lowest_free.get()) + count;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_ = {};
};

TEST_F(LoopDeviceTest, WithoutDescriptorsADeviceDoesNotCountAsGone) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const LoopDevice loop = Attach(image);
  const FileIdentity identity = *IdentifyFile(image);
  bool listed = false;
  bool looked = false;
  bool numbered = false;
  for (rlim_t count = 0; count < 16; ++count) {
    base::StatusOr<std::vector<LoopDevice>> found;
    base::StatusOr<std::vector<LoopEntry>> entries;
    base::StatusOr<uint64_t> sequence;
    {
      const DescriptorLimit limit(count);
      found = FindLoops(identity, "image");
      entries = ListLoopEntries([&](std::string_view path) { return path == image; });
      sequence = ReadDiskSequence(loop.path);
    }
    if (found.ok()) EXPECT_EQ(found->size(), 1u) << "with " << count << " descriptors";
    if (entries.ok()) EXPECT_EQ(entries->size(), 1u) << "with " << count << " descriptors";
    if (sequence.ok()) EXPECT_NE(*sequence, 0u) << "with " << count << " descriptors";
    listed = found.ok();
    looked = entries.ok();
    numbered = sequence.ok();
  }
  EXPECT_TRUE(listed && looked && numbered) << "the walk ended too early";
}

TEST_F(LoopDeviceTest, ADeviceThatIsDetachedWhileItIsListedIsLeftOut) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const LoopDevice loop = Attach(image);
  const auto entries = ListLoopEntries([&](std::string_view path) {
    if (path != image) return false;
    EXPECT_TRUE(DetachLoop(loop).ok());
    return true;
  });
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_TRUE(entries->empty());
}

TEST_F(LoopDeviceTest, ADeadFileSystemHidesItsOwnImagesAlone) {
  const std::string image = folder_.SparseFile("image", 1 << 20);
  const LoopDevice loop = Attach(image);
  Disk disk;
  const auto exec = NewHostExec();
  ASSERT_TRUE(FormatIfBlank(*exec, disk.device(), "xfs", {}).ok());
  ASSERT_TRUE(disk.Mount("xfs").ok());
  const std::string lost = disk.mount_point() + "/lost";
  ASSERT_EQ(close(open(lost.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
  ASSERT_EQ(truncate(lost.c_str(), 1 << 20), 0);
  const FileIdentity lost_identity = *IdentifyFile(lost);
  const auto on_dead = AttachLoop(lost, {});
  ASSERT_TRUE(on_dead.ok()) << on_dead.status();
  EXPECT_EQ(FindLoops(lost_identity, "lost")->size(), 1u);
  {
    const base::UniqueFd root(open(disk.mount_point().c_str(), O_RDONLY | O_CLOEXEC));
    uint32_t flags = 2;                                    // XFS_FSOP_GOING_FLAGS_NOLOGFLUSH
    constexpr auto kGoingDown = _IOR('X', 125, uint32_t);  // XFS_IOC_GOINGDOWN
    ASSERT_EQ(ioctl(root.get(), kGoingDown, &flags), 0);
  }
  // XFS answers nothing any more, so the kernel cannot tell which file that device shows.
  EXPECT_FALSE(FindLoops(lost_identity, "lost").ok());
  const auto found = FindLoops(loop.backing, "image");
  EXPECT_TRUE(found.ok()) << found.status();
  if (found.ok()) EXPECT_EQ(found->size(), 1u);
  const auto entry = ListLoopEntries([&](std::string_view path) { return path == lost; });
  ASSERT_TRUE(entry.ok() && entry->size() == 1) << entry.status();
  EXPECT_TRUE(DetachLoop((*entry)[0].loop, (*entry)[0].sequence, std::chrono::seconds(30)).ok());
}

// The server of a FUSE file of one MiB, which can stop answering.
class FileServer {
 public:
  explicit FileServer(const std::string& file) {
    auto mount = LostMount::MakeFile(file);
    EXPECT_TRUE(mount.ok() && (*mount)->Greet().ok()) << mount.status();
    mount_ = *std::move(mount);
    server_ = std::jthread([this] { Serve(mount_->server()); });
  }
  ~FileServer() { Die(); }
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;
  void Hang() { hangs_ = true; }
  // All requests end.
  void Die() {
    // The thread reads the descriptor until the connection has ended.
    umount2(mount_->target().c_str(), MNT_FORCE);
    ends_ = true;
    if (server_.joinable()) server_.join();
    mount_->Die();
  }

 private:
  void Serve(int server) {
    std::array<char, FUSE_MIN_READ_BUFFER> buffer;
    while (!ends_) {
      pollfd ready = {.fd = server, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 100) != 1) continue;
      if (read(server, buffer.data(), buffer.size()) < ssize_t{sizeof(fuse_in_header)}) return;
      if (hangs_) continue;
      fuse_in_header request;
      std::memcpy(&request, buffer.data(), sizeof(request));
      struct {
        fuse_out_header header;
        union {
          fuse_attr_out attributes;
          fuse_open_out open;
        };
      } answer = {};
      answer.header.unique = request.unique;
      answer.header.len = sizeof(answer.header);
      if (request.opcode == FUSE_GETATTR) {
        answer.attributes.attr.ino = request.nodeid;
        answer.attributes.attr.mode = S_IFREG | 0644;
        answer.attributes.attr.nlink = 1;
        answer.attributes.attr.size = 1 << 20;
        answer.header.len += sizeof(answer.attributes);
      } else if (request.opcode == FUSE_OPEN) {
        answer.header.len += sizeof(answer.open);
      } else {
        answer.header.error = -EIO;
      }
      if (write(server, &answer, answer.header.len) < 0) return;
    }
  }

  std::unique_ptr<LostMount> mount_;
  std::atomic<bool> hangs_ = false, ends_ = false;
  std::jthread server_;
};

TEST_F(LoopDeviceTest, ASilentFileSystemDelaysNoOtherImage) {
  const LoopDevice loop = Attach(folder_.SparseFile("image", 1 << 20));
  const std::string lost = folder_.SparseFile("lost", 0);
  FileServer server(lost);
  const auto on_silent = AttachLoop(lost, {.read_only = true});
  ASSERT_TRUE(on_silent.ok()) << on_silent.status();
  const auto entry = ListLoopEntries([&](std::string_view path) { return path == lost; });
  ASSERT_TRUE(entry.ok() && entry->size() == 1) << entry.status();
  server.Hang();
  for (const auto& [backing, name] : {std::pair(loop.backing, "image"), {{}, "lost"}}) {
    auto found = std::async(std::launch::async, FindLoops, backing, name);
    const bool waited = found.wait_for(std::chrono::seconds(60)) != std::future_status::ready;
    EXPECT_FALSE(waited) << "the search for " << name << " waits for the silent file system";
    if (waited) server.Die();
    const auto loops = found.get();
    if (name == std::string("image")) {
      EXPECT_TRUE(loops.ok() && loops->size() == 1) << loops.status();
    } else {
      EXPECT_FALSE(loops.ok());
    }
  }
  server.Die();
  const base::Status detached =
      DetachLoop((*entry)[0].loop, (*entry)[0].sequence, std::chrono::seconds(30));
  EXPECT_TRUE(detached.ok()) << detached;
}

TEST_F(LoopDeviceTest, AMachineWithoutVirtualDisksHasNoLoopDevices) {
  std::jthread([] {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(mount("tmpfs", "/sys/devices/virtual", "tmpfs", 0, nullptr), 0);
    const auto found = FindLoops({}, "image");
    EXPECT_TRUE(found.ok() && found->empty()) << found.status();
  }).join();
}

TEST_F(LoopDeviceTest, RefusesWhatIsNoImage) {
  EXPECT_EQ(AttachLoop(folder_ / "none", {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(AttachLoop(folder_.path(), {.read_only = true}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace berth::platform
