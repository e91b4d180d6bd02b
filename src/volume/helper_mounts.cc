#include "volume/helper_mounts.h"

#include "base/text.h"

namespace berth::volume {
namespace {

class HostHelperMounts : public HelperMounts {
 public:
  HostHelperMounts(platform::Exec& exec, platform::Mounter& mounter)
      : exec_(exec), mounter_(mounter) {}

  base::Status Mount(const HelperMount& mount) override {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(mount.target));
    if (mounted) {
      return base::Error(base::StatusCode::kAlreadyExists, "something is mounted at '{}'",
                         mount.target);
    }
    RETURN_IF_ERROR(platform::RunOk(exec_, MakeHelperCommand(mount)));
    ASSIGN_OR_RETURN(const bool done, IsMounted(mount.target));
    if (done) return base::OkStatus();
    return base::Error(base::StatusCode::kInternal,
                       "{} ended without a failure, but nothing is mounted at '{}'",
                       MakeHelperCommand(mount).argv[0], mount.target);
  }

  base::Status Unmount(std::string_view /*plugin*/, const platform::MountPoint& target) override {
    return mounter_.Unmount(target.text());
  }

 private:
  base::StatusOr<bool> IsMounted(std::string_view target) {
    ASSIGN_OR_RETURN(const auto table, mounter_.List());
    return platform::FindMount(table, target) != nullptr;
  }

  platform::Exec& exec_;
  platform::Mounter& mounter_;
};

}  // namespace

platform::Command MakeHelperCommand(const HelperMount& mount) {
  platform::Command command{
      .argv = mount.program, .secrets = mount.secrets, .timeout = mount.timeout};
  // The server process of a FUSE file system keeps the streams open.
  command.leaves_daemon = true;
  if (!command.argv.empty()) return command;
  command.argv = {"mount", "-t", mount.fs_type};
  if (!mount.options.empty()) {
    command.argv.insert(command.argv.end(),
                        {"-o", fmt::format("{}", fmt::join(mount.options, ","))});
  }
  command.argv.insert(command.argv.end(), {mount.source, mount.target});
  return command;
}

std::unique_ptr<HelperMounts> NewHostHelperMounts(platform::Exec& exec,
                                                  platform::Mounter& mounter) {
  return std::make_unique<HostHelperMounts>(exec, mounter);
}

}  // namespace berth::volume
