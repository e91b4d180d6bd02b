#include "platform/file_systems/grow.h"

#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include <cerrno>

namespace berth::platform {
namespace {

// ext4's interface, which has no header (fs/ext4/ext4.h): the new size in blocks.
constexpr unsigned long kResizeExt4 = _IOW('f', 16, uint64_t);

// The kernel's interface for growing (ioctl_xfs_fsgrowfsdata(2)), whose header Debian ships apart.
struct XfsGeometryV1 {
  uint32_t block_size, rt_extent_size, ag_blocks, ag_count, log_blocks, sector_size, inode_size,
      imax_percent;
  uint64_t data_blocks, rt_blocks, rt_extents, log_start;
  unsigned char uuid[16];
  uint32_t stripe_unit, stripe_width;
  int32_t version;
  uint32_t flags, log_sector_size, rt_sector_size, dir_block_size;
};
struct XfsGrowData {
  uint64_t new_blocks;
  uint32_t imax_percent;
};
constexpr unsigned long kGetGeometryV1 = _IOR('X', 100, XfsGeometryV1);
constexpr unsigned long kGrowData = _IOW('X', 110, XfsGrowData);
static_assert(sizeof(XfsGeometryV1) == 112 && sizeof(XfsGrowData) == 16);

}  // namespace

int GrowMountedExt4(int root, uint64_t bytes) {
  struct statfs fs = {};
  if (fstatfs(root, &fs) != 0) return errno;
  if (fs.f_bsize <= 0) return EINVAL;
  const uint64_t blocks = bytes / static_cast<uint64_t>(fs.f_bsize);
  return ioctl(root, kResizeExt4, &blocks) == 0 ? 0 : errno;
}

int GrowMountedXfs(int root, uint64_t bytes) {
  XfsGeometryV1 geometry = {};
  if (ioctl(root, kGetGeometryV1, &geometry) != 0) return errno;
  if (geometry.block_size == 0) return EINVAL;
  const XfsGrowData grow = {bytes / geometry.block_size, geometry.imax_percent};
  if (grow.new_blocks <= geometry.data_blocks) return 0;
  if (ioctl(root, kGrowData, &grow) == 0) return 0;
  // A remainder that is too small for an allocation group stays unused.
  const uint64_t rest = grow.new_blocks - geometry.data_blocks;
  constexpr uint64_t kMinGroupBlocks = 64;
  return errno == EINVAL && rest < kMinGroupBlocks ? 0 : errno;
}

int GrowMountedBtrfs(int root) {
  btrfs_ioctl_vol_args args = {};
  args.name[0] = 'm';
  args.name[1] = 'a';
  args.name[2] = 'x';
  return ioctl(root, BTRFS_IOC_RESIZE, &args) == 0 ? 0 : errno;
}

}  // namespace berth::platform
