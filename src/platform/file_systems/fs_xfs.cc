#include <endian.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/devices/device_file.h"
#include "platform/errno.h"
#include "platform/file_systems/file_systems.h"
#include "platform/file_systems/grow.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::chrono::minutes kMountTimeout(2);  // a mount may replay a long log
constexpr std::chrono::minutes kXfsGrowTimeout(2);

// 0 or an errno; async-signal-safe. `root` is any descriptor in the file system.
int GrowFileSystem(int root, const std::string& device) {
  uint64_t bytes = 0;
  if (const int error = ReadBlockDeviceSize(device.c_str(), bytes); error != 0) return error;
  return GrowMountedXfs(root, bytes);
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
