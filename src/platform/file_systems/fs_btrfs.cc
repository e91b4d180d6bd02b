#include <endian.h>

#include <cerrno>

#include "base/log.h"
#include "platform/file_systems/file_systems.h"
#include "platform/file_systems/grow.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::chrono::minutes kGrowTimeout(2);
constexpr off_t kSuperblock = 64 * 1024;

base::StatusOr<bool> HasLogTree(const std::string& device) {
  constexpr size_t kLogRoot = 0x60;  // btrfs_super_block::log_root; little-endian, 0: none
  ASSIGN_OR_RETURN(const SuperblockBytes superblock, ReadSuperblock(device, kSuperblock));
  return NumberAt<uint64_t>(superblock, kLogRoot) != 0;
}

class BtrfsFileSystem : public FileSystem {
 public:
  std::string_view type() const override { return "btrfs"; }
  uint64_t min_bytes() const override { return 114294784; }  // mkfs.btrfs refuses less (109 MiB)

  base::Status Format(Exec& exec, const std::string& device,
                      const FormatOptions& options) const override {
    std::vector<std::string> argv = {"mkfs.btrfs", "-q", "-K"};
    if (!options.label.empty()) argv.insert(argv.end(), {"-L", options.label.substr(0, 255)});
    if (!options.uuid.empty()) argv.insert(argv.end(), {"-U", options.uuid});
    if (options.force) argv.push_back("-f");
    argv.insert(argv.end(), options.extra.begin(), options.extra.end());
    argv.push_back(device);
    return RunOk(exec, {.argv = std::move(argv), .timeout = options.timeout}).status();
  }

  // kQuick does nothing, because the kernel verifies checksums when it reads, and replays the log
  // tree at each mount.
  base::Status Check(Exec& exec, const std::string& device, CheckDepth depth) const override {
    if (depth == CheckDepth::kQuick) return base::OkStatus();
    return RunChecker(exec, {"btrfs", "check", "--readonly"}, type(), device);
  }

  bool NeedsNoQuickCheck(const SuperblockBytes& /*superblock*/) const override { return true; }

  off_t superblock_offset() const override { return kSuperblock; }
  uint64_t ComputeUsedBytes(const SuperblockBytes& superblock) const override {
    constexpr size_t kTotalBytes = 0x70;
    return le64toh(NumberAt<uint64_t>(superblock, kTotalBytes));
  }

  std::vector<std::string> ReadOnlyDeviceOptions() const override { return {"rescue=nologreplay"}; }

  base::Status Resize(Exec& exec, const std::string& device,
                      const MountPoint& mount_point) const override {
    const std::string what = fmt::format("grow btrfs on {}", Quote(device));
    if (mount_point.empty()) {
      return base::Annotate(RunOnDetachedMount(device, type(), {}, 2 * kGrowTimeout,
                                               [](int root) { return GrowMountedBtrfs(root); }),
                            what);
    }
    return GrowByPath(what, mount_point, kGrowTimeout,
                      [](int root) { return GrowMountedBtrfs(root); });
  }

  base::Status GrowMounted(int root, const std::string& device) const override {
    return GrowByDescriptor(fmt::format("grow btrfs on {}", Quote(device)), root, kGrowTimeout,
                            [](int opened) { return GrowMountedBtrfs(opened); });
  }

  // -m changes only the visible UUID in the superblock, and leaves all metadata as it is. But it
  // also increments the superblock's generation. If a log tree must still be replayed, as in a copy
  // of a file system in use, the kernel then finds the log too old and refuses the mount. So a
  // mount replays the log first. While the original is mounted on this node, only kernels from 6.7
  // on can mount such a copy.
  base::Status NewUuid(Exec& exec, const std::string& device) const override {
    ASSIGN_OR_RETURN(const bool has_log, HasLogTree(device));
    if (has_log) {
      RETURN_IF_ERROR(RunOnDetachedMount(device, type(), {}, kGrowTimeout, [](int) { return 0; }));
    }
    return RunOk(exec,
                 {.argv = {"btrfstune", "-f", "-m", device}, .timeout = std::chrono::minutes(2)})
        .status();
  }

 protected:
  std::string_view mkfs() const override { return "mkfs.btrfs"; }
};

}  // namespace

const FileSystem& Btrfs() {
  static const BtrfsFileSystem fs;
  return fs;
}

}  // namespace berth::platform
