#include <endian.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/devices/device_file.h"
#include "platform/errno.h"
#include "platform/file_systems/file_systems.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::chrono::minutes kMountTimeout(2);  // a mount may replay a long log
constexpr std::chrono::minutes kXfsGrowTimeout(2);

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

// 0 or an errno; async-signal-safe. `root` is any descriptor in the file system.
int GrowFileSystem(int root, const std::string& device) {
  XfsGeometryV1 geometry = {};
  if (ioctl(root, kGetGeometryV1, &geometry) != 0) return errno;
  if (geometry.block_size == 0) return EINVAL;
  uint64_t bytes = 0;
  if (const int error = ReadBlockDeviceSize(device.c_str(), bytes); error != 0) return error;
  const XfsGrowData grow = {bytes / geometry.block_size, geometry.imax_percent};
  if (grow.new_blocks <= geometry.data_blocks) return 0;
  if (ioctl(root, kGrowData, &grow) == 0) return 0;
  // A remainder that is too small for an allocation group stays unused.
  const uint64_t rest = grow.new_blocks - geometry.data_blocks;
  constexpr uint64_t kMinGroupBlocks = 64;
  return errno == EINVAL && rest < kMinGroupBlocks ? 0 : errno;
}

class XfsFileSystem : public FileSystem {
 public:
  std::string_view type() const override { return "xfs"; }
  uint64_t min_bytes() const override { return 300 << 20; }  // mkfs.xfs refuses less

  base::Status Format(Exec& exec, const std::string& device,
                      const FormatOptions& options) const override {
    std::vector<std::string> argv = {"mkfs.xfs", "-q", "-K"};
    if (!options.label.empty()) argv.insert(argv.end(), {"-L", options.label.substr(0, 12)});
    if (!options.uuid.empty()) argv.insert(argv.end(), {"-m", "uuid=" + options.uuid});
    if (options.force) argv.push_back("-f");
    argv.insert(argv.end(), options.extra.begin(), options.extra.end());
    argv.push_back(device);
    return RunOk(exec, {.argv = std::move(argv), .timeout = options.timeout}).status();
  }

  // The kernel checks the superblock and replays the log at each mount, so that kQuick adds
  // nothing.
  base::Status Check(Exec& exec, const std::string& device, CheckDepth depth) const override {
    if (depth == CheckDepth::kQuick) return base::OkStatus();
    return RunChecker(exec, {"xfs_repair", "-n"}, type(), device);
  }

  bool NeedsNoQuickCheck(const SuperblockBytes& /*superblock*/) const override { return true; }

  off_t superblock_offset() const override { return 0; }
  uint64_t ComputeUsedBytes(const SuperblockBytes& superblock) const override {
    constexpr size_t kBlockSize = 4, kDataBlocks = 8;
    return be64toh(NumberAt<uint64_t>(superblock, kDataBlocks)) *
           be32toh(NumberAt<uint32_t>(superblock, kBlockSize));
  }

  std::vector<std::string> ReadOnlyDeviceOptions() const override { return {"norecovery"}; }

  std::vector<std::string> CopyOptions() const override { return {"nouuid"}; }

  base::Status Resize(Exec& exec, const std::string& device,
                      const MountPoint& mount_point) const override {
    const std::string what = fmt::format("grow xfs on {}", Quote(device));
    if (mount_point.empty()) {
      // xfs grows only while it is mounted.
      return base::Annotate(
          RunOnDetachedMount(device, type(), {"nouuid"}, kMountTimeout + kXfsGrowTimeout,
                             [device](int root) { return GrowFileSystem(root, device); }),
          what);
    }
    return GrowByPath(what, mount_point, kXfsGrowTimeout,
                      [device](int root) { return GrowFileSystem(root, device); });
  }

  base::Status GrowMounted(int root, const std::string& device) const override {
    return GrowByDescriptor(fmt::format("grow xfs on {}", Quote(device)), root, kXfsGrowTimeout,
                            [device](int opened) { return GrowFileSystem(opened, device); });
  }

  base::Status NewUuid(Exec& exec, const std::string& device) const override {
    // xfs_admin requires an empty log: a mount replays it and an unmount leaves it clean. nouuid is
    // needed because the original may be mounted.
    RETURN_IF_ERROR(
        RunOnDetachedMount(device, type(), {"nouuid"}, kMountTimeout, [](int) { return 0; }));
    return RunOk(exec, {.argv = {"xfs_admin", "-U", "generate", device},
                        .timeout = std::chrono::minutes(2)})
        .status();
  }

 protected:
  std::string_view mkfs() const override { return "mkfs.xfs"; }
};

}  // namespace

const FileSystem& Xfs() {
  static const XfsFileSystem fs;
  return fs;
}

}  // namespace berth::platform
