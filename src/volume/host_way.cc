#include "volume/host_way.h"

#include "base/text.h"

namespace berth::volume {
namespace {

bool IsMountProgram(std::string_view program) {
  program = base::FileNameOf(program);
  for (const std::string_view name : {"mount", "umount"}) {
    if (program == name || (program.starts_with(name) && program[name.size()] == '.')) return true;
  }
  return false;
}

class ContainerizedExec : public platform::Exec {
 public:
  base::StatusOr<platform::CommandResult> Run(const platform::Command& command) override {
    return host_->Run(MakeHostCommand(command));
  }

 private:
  const std::unique_ptr<platform::Exec> host_ = platform::NewHostExec();
};

// A mount that was made in the host's namespace must be unmounted there.
class ContainerizedMounts : public HelperMounts {
 public:
  ContainerizedMounts(platform::Exec& exec, platform::Mounter& mounter)
      : exec_(exec), mounter_(mounter), host_(NewHostHelperMounts(exec, mounter)) {}

  base::Status Mount(const HelperMount& mount) override { return host_->Mount(mount); }

  base::Status Unmount(std::string_view /*plugin*/, const platform::MountPoint& target) override {
    ASSIGN_OR_RETURN(const auto table, mounter_.List());
    if (platform::FindMount(table, target.text()) == nullptr) return base::OkStatus();
    const auto done = platform::RunOk(exec_, {.argv = {"umount", target.text()}});
    if (base::Message(done.status()).find("busy") == std::string_view::npos) return done.status();
    return base::Error(base::StatusCode::kFailedPrecondition, "{}", base::Message(done.status()));
  }

 private:
  platform::Exec& exec_;
  platform::Mounter& mounter_;
  const std::unique_ptr<HelperMounts> host_;
};

}  // namespace

platform::Command MakeHostCommand(const platform::Command& command) {
  if (command.argv.empty() || !IsMountProgram(command.argv[0])) return command;
  platform::Command entered = command;
  entered.argv = {"nsenter", "--mount=/proc/1/ns/mnt", "--"};
  entered.argv.insert(entered.argv.end(), command.argv.begin(), command.argv.end());
  return entered;
}

std::unique_ptr<platform::Exec> NewHostWayExec(const HostWay& way) {
  if (way.containerized) return std::make_unique<ContainerizedExec>();
  return platform::NewHostExec();
}

std::unique_ptr<HelperMounts> NewHostWayMounts(platform::Exec& exec, platform::Mounter& mounter,
                                               const HostWay& way) {
  if (way.containerized) return std::make_unique<ContainerizedMounts>(exec, mounter);
  return NewHostHelperMounts(exec, mounter);
}

}  // namespace berth::volume
