#include <fcntl.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/child.h"
#include "platform/file_systems.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;

constexpr std::chrono::minutes kGrowTimeout(2);

int Grow(int root) {
  btrfs_ioctl_vol_args args = {};
  args.name[0] = 'm';
  args.name[1] = 'a';
  args.name[2] = 'x';
  return ioctl(root, BTRFS_IOC_RESIZE, &args) == 0 ? 0 : errno;
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
    argv.insert(argv.end(), options.extra.begin(), options.extra.end());
    argv.push_back(device);
    return RunOk(exec, {.argv = std::move(argv), .timeout = options.timeout}).status();
  }

  // The kernel verifies checksums as it reads and replays its log tree at each mount.
  base::Status Check(Exec& exec, const std::string& device, CheckDepth depth) const override {
    if (depth == CheckDepth::kQuick) return base::OkStatus();
    ASSIGN_OR_RETURN(const CommandResult result,
                     exec.Run({.argv = {"btrfs", "check", "--readonly", device},
                               .timeout = std::chrono::minutes(30)}));
    if (result.exit_code == 0) return base::OkStatus();
    const std::string text = result.err + result.out;
    return base::Error(result.exit_code < 128 ? StatusCode::kDataLoss : StatusCode::kInternal,
                       "check btrfs on {}: btrfs check exited with {}: {}", Quote(device),
                       result.exit_code, text.substr(0, 1024));
  }

  std::vector<std::string> ReadOnlyDeviceOptions() const override { return {"rescue=nologreplay"}; }

  base::Status Resize(Exec& exec, const std::string& device,
                      const std::string& mount_point) const override {
    const std::string what = fmt::format("grow btrfs on {}", Quote(device));
    if (mount_point.empty()) {
      return base::Annotate(WithDetachedMount(device, type(), {}, 2 * kGrowTimeout,
                                              [](int root) { return Grow(root); }),
                            what);
    }
    return RunInChild(what, kGrowTimeout, [&] {
      const int root = open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      return root < 0 ? errno : Grow(root);
    });
  }

  base::Status GrowMounted(int root, const std::string& device) const override {
    return GrowByDescriptor(fmt::format("grow btrfs on {}", Quote(device)), root, kGrowTimeout,
                            [](int opened) { return Grow(opened); });
  }

  // -M changes only the UUID that is looked at, in the superblock, and leaves all metadata as it
  // is.
  base::Status NewUuid(Exec& exec, const std::string& device) const override {
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
