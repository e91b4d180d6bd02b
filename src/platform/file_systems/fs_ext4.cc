#include <endian.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/log.h"
#include "platform/devices/device_file.h"
#include "platform/file_systems/ext4_superblock.h"
#include "platform/file_systems/file_systems.h"
#include "platform/file_systems/grow.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;

// e2fsck(8): 1 means that errors were corrected; 4 and up, that some were not or that it could not
// run.
constexpr int kCorrected = 1;

constexpr std::chrono::minutes kExt4GrowTimeout(10);

// 0 or an errno; async-signal-safe. `root` is any descriptor in the file system.
int GrowFileSystem(int root, const char* device) {
  uint64_t bytes = 0;
  if (const int error = ReadBlockDeviceSize(device, bytes); error != 0) return error;
  return GrowMountedExt4(root, bytes);
}

class Ext4FileSystem : public FileSystem {
 public:
  std::string_view type() const override { return "ext4"; }
  uint64_t min_bytes() const override { return 1 << 20; }

  base::Status Format(Exec& exec, const std::string& device,
                      const FormatOptions& options) const override {
    // Tables are initialised lazily and nothing is discarded, because the image is sparse and reads
    // as zeros. No blocks are reserved for root, who runs nothing here. The checksum seed is
    // stored, so that a clone's UUID can change without rewriting metadata.
    std::vector<std::string> argv = {
        "mkfs.ext4", "-q",
        "-E",        "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        "-O",        "metadata_csum_seed",
        "-m",        "0",
        "-e",        "remount-ro"};
    if (!options.label.empty()) argv.insert(argv.end(), {"-L", options.label.substr(0, 16)});
    if (!options.uuid.empty()) argv.insert(argv.end(), {"-U", options.uuid});
    if (options.force) argv.push_back("-F");
    argv.insert(argv.end(), options.extra.begin(), options.extra.end());
    argv.push_back(device);
    return RunOk(exec, {.argv = std::move(argv), .timeout = options.timeout}).status();
  }

  base::Status Check(Exec& exec, const std::string& device, CheckDepth depth) const override {
    if (depth == CheckDepth::kQuick) {
      // A device that cannot be read is for e2fsck to judge, but one that does not answer is an
      // error.
      const auto superblock = ReadSuperblock(device, kExt4SuperblockOffset);
      if (superblock.status().code() == StatusCode::kDeadlineExceeded) return superblock.status();
      if (superblock.ok() && NeedsNoQuickCheck(*superblock)) return base::OkStatus();
    }
    const std::vector<std::string> flags = depth == CheckDepth::kQuick
                                               ? std::vector<std::string>{"-p"}
                                               : std::vector<std::string>{"-f", "-n"};
    return Fsck(exec, device, flags);
  }

  // e2fsck -p would need about ten milliseconds to find out that it has nothing to do.
  bool NeedsNoQuickCheck(const SuperblockBytes& superblock) const override {
    std::array<unsigned char, kExt4SuperblockBytes> bytes;
    memcpy(bytes.data(), superblock.data(), bytes.size());
    return Ext4NeedsNoCheck(bytes, time(nullptr));
  }

  off_t superblock_offset() const override { return kExt4SuperblockOffset; }
  uint64_t ComputeUsedBytes(const SuperblockBytes& superblock) const override {
    constexpr size_t kBlocksLow = 0x4, kLogBlockSize = 0x18, kBlocksHigh = 0x150;
    constexpr uint32_t k64Bit = 0x80;
    uint64_t blocks = le32toh(NumberAt<uint32_t>(superblock, kBlocksLow));
    if ((le32toh(NumberAt<uint32_t>(superblock, ext4::kIncompatible)) & k64Bit) != 0) {
      blocks |= static_cast<uint64_t>(le32toh(NumberAt<uint32_t>(superblock, kBlocksHigh))) << 32;
    }
    return blocks << (10 + (le32toh(NumberAt<uint32_t>(superblock, kLogBlockSize)) & 0x1f));
  }

  std::vector<std::string> ReadOnlyDeviceOptions() const override { return {"noload"}; }

  base::Status Resize(Exec& exec, const std::string& device,
                      const MountPoint& mount_point) const override {
    // resize2fs grows an idle file system only right after a full check.
    if (mount_point.empty()) RETURN_IF_ERROR(Fsck(exec, device, {"-f", "-p"}));
    base::Status status =
        RunOk(exec, {.argv = {"resize2fs", device}, .timeout = std::chrono::minutes(10)}).status();
    if (base::Message(status).find("Permission denied to resize") == std::string_view::npos) {
      return status;
    }
    return base::Error(
        StatusCode::kPermissionDenied,
        "grow the mounted ext4 on {}: the kernel wants CAP_SYS_RESOURCE for it, which "
        "this process lacks; it can grow while no pod uses it",
        Quote(device));
  }

  base::Status GrowMounted(int root, const std::string& device) const override {
    return GrowByDescriptor(
        fmt::format("grow the mounted ext4 on {}", Quote(device)), root, kExt4GrowTimeout,
        [device](int opened) { return GrowFileSystem(opened, device.c_str()); });
  }

  base::Status NewUuid(Exec& exec, const std::string& device) const override {
    const Command tune = {.argv = {"tune2fs", "-U", "random", device},
                          .timeout = std::chrono::minutes(10)};
    if (RunOk(exec, tune).ok()) return base::OkStatus();
    // tune2fs refuses a file system that was not checked since its last mount, or whose journal
    // must be replayed.
    RETURN_IF_ERROR(Fsck(exec, device, {"-f", "-p"}));
    return RunOk(exec, tune).status();
  }

 protected:
  std::string_view mkfs() const override { return "mkfs.ext4"; }

 private:
  static base::Status Fsck(Exec& exec, const std::string& device,
                           const std::vector<std::string>& flags) {
    std::vector<std::string> argv = {"e2fsck"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back(device);
    ASSIGN_OR_RETURN(const CommandResult result,
                     exec.Run({.argv = argv, .timeout = std::chrono::minutes(30)}));
    if (result.exit_code <= kCorrected) return base::OkStatus();
    const std::string text = result.out + result.err;
    constexpr int kUncorrected = 4;
    const bool damaged = result.exit_code < 128 && (result.exit_code & kUncorrected) != 0;
    return base::Error(damaged ? StatusCode::kDataLoss : StatusCode::kInternal,
                       "check ext4 on {}: e2fsck exited with {}: {}", Quote(device),
                       result.exit_code, text.substr(0, 1024));
  }
};

}  // namespace

const FileSystem& Ext4() {
  static const Ext4FileSystem fs;
  return fs;
}

}  // namespace berth::platform
