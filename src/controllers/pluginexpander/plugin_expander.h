// Grows volumes through plugins of this process (Flexvolume's expandvolume), up to where the node
// takes over: in Kubernetes the controller manager's expand controller.
//
//   a bound claim asks for more than its PersistentVolume has
//     ── condition Resizing written ──▶ ExpandVolume ── failed ──▶ event, again after the backoff
//                                            │ done
//                                            ▼
//     PersistentVolume.spec.capacity written ──▶ condition FileSystemResizePending: the node's turn
//
// A driver is asked again, for the same sizes, when it is not known whether it was.
#pragma once

#include <chrono>
#include <string>

#include "api/kinds/kinds.h"
#include "base/keyed_workers.h"
#include "controllers/controller.h"
#include "volume/plugin_registry.h"
#include "volume/volume_attacher.h"

namespace berth::controllers::pluginexpander {

struct Options {
  int workers = 4;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
};

class PluginExpander : public Controller {
 public:
  // `plugins` is borrowed, and outlives this.
  PluginExpander(Context context, volume::PluginRegistry& plugins, Options options = {});
  ~PluginExpander() override;

  std::string_view name() const override { return "plugin-expander"; }
  void Start() override { workers_.Start(); }
  void Stop() override { workers_.Stop(); }
  // A plugin of the registry is ready, or failed, or is gone.
  void PluginChanged(const std::string& plugin);

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  Outcome Sync(const std::string& key);
  Outcome Expand(const Claim& claim, const Volume& volume, int64_t wanted, int64_t has);
  base::StatusOr<Claim> SayResizing(const Claim& claim);
  Outcome LeaveToNode(const Claim& claim);
  Outcome Failed(const Claim& claim, const base::Status& why);

  const Context context_;
  volume::PluginRegistry& plugins_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::pluginexpander
