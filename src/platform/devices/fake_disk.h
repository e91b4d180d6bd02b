// A loop device of a sparse image and a place to mount it, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "platform/devices/loop_device.h"
#include "platform/file_systems/reflink.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/freeze.h"
#include "platform/mounts/mounter.h"
#include "platform/walks/usage.h"

namespace berth::platform {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kDiskSize = 320 * kMiB;  // mkfs.xfs wants 300

class Disk {
 public:
  explicit Disk(uint64_t bytes = kDiskSize) : image_(folder_.SparseFile("image", bytes)) {
    Attach();
  }
  // A copy of another disk's image, as the driver makes it for a snapshot or a clone.
  explicit Disk(const Disk& original, bool read_only = false)
      : image_(folder_.SparseFile("image", 0)) {
    const base::UniqueFd from(open(original.image_.c_str(), O_RDONLY | O_CLOEXEC));
    const base::UniqueFd to(open(image_.c_str(), O_RDWR | O_CLOEXEC));
    auto frozen = FreezeFileSystem(original.mount_point(), std::chrono::seconds(60));
    EXPECT_TRUE(frozen.ok()) << base::ToString(frozen.status());
    EXPECT_TRUE(CopyImage(from.get(), to.get(), {}).ok());
    if (frozen.ok()) EXPECT_TRUE((*frozen)->Thaw().ok());
    Attach(read_only);
  }
  Disk& operator=(const Disk&) = delete;
  void Attach(bool read_only = false) {
    EXPECT_TRUE(MakeFolders(mount_point()).ok());
    auto loop = AttachLoop(image_, {.read_only = read_only});
    EXPECT_TRUE(loop.ok()) << base::ToString(loop.status());
    if (loop.ok()) loop_ = *loop;
  }
  ~Disk() {
    EXPECT_TRUE(mounter_->Unmount(mount_point()).ok());
    // A test beside this one may have just copied the mount into another mount namespace.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::Status detached = DetachLoop(loop_);
    while (!detached.ok() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      detached = DetachLoop(loop_);
    }
    EXPECT_TRUE(detached.ok()) << base::ToString(detached);
  }
  const std::string& device() const { return loop_.path; }
  std::string mount_point() const { return folder_ / "mnt"; }
  base::Status Mount(std::string_view type, std::vector<std::string> options = {}) {
    return mounter_->Mount({.source = device(),
                            .target = mount_point(),
                            .fs_type = std::string(type),
                            .options = std::move(options)});
  }
  base::Status Unmount() { return mounter_->Unmount(mount_point()); }
  void Write(std::string_view data, uint64_t at) {
    const base::UniqueFd fd(open(device().c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(pwrite(fd.get(), data.data(), data.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(data.size()));
    EXPECT_EQ(fsync(fd.get()), 0);
  }
  void Grow(uint64_t bytes) {
    EXPECT_EQ(truncate(image_.c_str(), static_cast<off_t>(bytes)), 0);
    EXPECT_TRUE(RefreshLoopSize(loop_).ok());
  }
  int64_t MountedBytes() { return GetFileSystemUsage(mount_point())->total_bytes; }

 private:
  const TempFolder folder_;
  const std::string image_;
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  LoopDevice loop_;
};

}  // namespace berth::platform
