#include "volume/exec/router.h"

#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "volume/exec/container_choice.h"
#include "volume/exec/container_exec.h"
#include "volume/exec/routed_mounts.h"
#include "volume/exec/run_folders.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::Command;
using platform::CommandResult;

// Whether the command talks to the device manager. It always runs on the host, because a machine
// has only one device manager.
bool IsOfDeviceManager(const Command& command) {
  if (command.argv.empty()) return false;
  std::string_view program = command.argv[0];
  program = base::FileNameOf(program);
  return program == "udevadm" || program == "udevsettle" || program == "udevtrigger" ||
         program == "mdev";
}

class PluginExec : public platform::Exec {
 public:
  // `host` is null if nothing may run on the host.
  PluginExec(std::string_view plugin, ContainerChoice& choice, ContainerExec& containers,
             platform::Exec* host)
      : plugin_(plugin), choice_(choice), containers_(containers), host_(host) {}

  StatusOr<CommandResult> Run(const Command& command) override {
    if (IsOfDeviceManager(command)) return RunOnHost(command);
    for (int attempt = 0; attempt < ContainerChoice::kMaxAttempts; ++attempt) {
      ASSIGN_OR_RETURN(const auto container, choice_.ChooseContainer(plugin_));
      if (!container.has_value()) return RunOnHost(command);
      ASSIGN_OR_RETURN(auto result, containers_.Run(*container, command));
      if (result.has_value()) return *std::move(result);
      LOG_INFO("{} ended before '{}' could run in it", container->Describe(), command.argv[0]);
      choice_.NoteEnded(plugin_, *container);
    }
    return rpc::NotSent(base::Error(StatusCode::kUnavailable,
                                    "'{}' was not run: the containers of {} do not keep running",
                                    command.argv[0], plugin_));
  }

 private:
  StatusOr<CommandResult> RunOnHost(const Command& command) {
    if (host_ != nullptr) return host_->Run(command);
    return base::Error(StatusCode::kFailedPrecondition,
                       "no pod that runs on this node is registered for {}", plugin_);
  }

  const std::string plugin_;
  ContainerChoice& choice_;
  ContainerExec& containers_;
  platform::Exec* const host_;
};

class UtilityRouter : public Utilities {
 public:
  UtilityRouter(const UtilitySurroundings& around, const HostWay& way,
                std::unique_ptr<rpc::CriClient> runtime)
      : runtime_(std::move(runtime)),
        host_(NewHostWayExec(way)),
        host_mounts_(NewHostWayMounts(*host_, around.mounter, way)),
        folders_(around.paths, around.mounter),
        choice_(*runtime_, around.paths, around.events, around.node),
        containers_(*runtime_, folders_),
        mounts_(around, *runtime_, choice_, containers_, *host_mounts_) {}

  platform::Exec& GetExec(std::string_view plugin) override { return GetWays(plugin).any; }
  platform::Exec& GetPodExec(std::string_view plugin) override { return GetWays(plugin).in_pod; }
  HelperMounts& helper_mounts() override { return mounts_; }
  void CancelRuns() override { runtime_->CancelAll(); }
  void Close() override { folders_.Close(); }

  Status LoadRecords() { return mounts_.LoadRecords(); }

 private:
  struct Ways {
    PluginExec any, in_pod;
  };
  Ways& GetWays(std::string_view plugin) {
    base::MutexLock lock(mutex_);
    auto& ways = ways_[std::string(plugin)];
    if (ways == nullptr) {
      ways.reset(new Ways{PluginExec(plugin, choice_, containers_, host_.get()),
                          PluginExec(plugin, choice_, containers_, nullptr)});
    }
    return *ways;
  }

  const std::unique_ptr<rpc::CriClient> runtime_;
  const std::unique_ptr<platform::Exec> host_;
  const std::unique_ptr<HelperMounts> host_mounts_;
  RunFolders folders_;
  ContainerChoice choice_;
  ContainerExec containers_;
  RoutedMounts mounts_;
  base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Ways>> ways_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<Utilities>> NewUtilityRouter(const UtilitySurroundings& around,
                                                      const HostWay& host) {
  // The folder is made here, so that only root can write to it.
  RETURN_IF_ERROR(platform::MakeFolders(around.paths.PluginContainers(), 0755));
  ASSIGN_OR_RETURN(auto runtime, rpc::CriClient::New(around.cri_endpoint));
  auto router = std::make_unique<UtilityRouter>(around, host, std::move(runtime));
  if (!around.data_folder.empty()) RETURN_IF_ERROR(router->LoadRecords());
  return std::unique_ptr<Utilities>(std::move(router));
}

}  // namespace berth::volume
