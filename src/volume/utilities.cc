#include "volume/utilities.h"

namespace berth::volume {
namespace {

class NoPod : public platform::Exec {
 public:
  base::StatusOr<platform::CommandResult> Run(const platform::Command&) override {
    return base::Error(base::StatusCode::kFailedPrecondition,
                       "utilities run in no pod on this node: the feature gate MountContainers is "
                       "off");
  }
};

class HostUtilities : public Utilities {
 public:
  HostUtilities(platform::Mounter& mounter, const HostWay& way)
      : exec_(NewHostWayExec(way)), helper_mounts_(NewHostWayMounts(*exec_, mounter, way)) {}

  platform::Exec& GetExec(std::string_view /*plugin*/) override { return *exec_; }
  platform::Exec& GetPodExec(std::string_view /*plugin*/) override { return no_pod_; }
  HelperMounts& helper_mounts() override { return *helper_mounts_; }

 private:
  const std::unique_ptr<platform::Exec> exec_;
  NoPod no_pod_;
  const std::unique_ptr<HelperMounts> helper_mounts_;
};

}  // namespace

std::unique_ptr<Utilities> NewHostUtilities(platform::Mounter& mounter, const HostWay& way) {
  return std::make_unique<HostUtilities>(mounter, way);
}

}  // namespace berth::volume
