// Grows volumes through plugins of this process (Flexvolume's expandvolume), up to where the node
// takes over: in Kubernetes the controller manager's expand controller. The steps are those of
// claim_growth.h; ExpandVolume of the plugin makes the volume larger. The block operator grows the
// images of the block agent's volumes, so for those this controller waits until the image has the
// size, and only writes claim and capacity.
//
// Thread-safe. A failure is reported by an event, and the growth is tried again after the backoff,
// or as soon as the plugin is ready. If the outcome of a call is unknown, the driver is called
// again with the same sizes.
#pragma once

#include <chrono>
#include <string>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/claim_growth.h"
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
  // Called when a plugin of the registry is ready, has failed or is gone.
  void PluginChanged(const std::string& plugin);

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  Outcome GrowVolume(const Claim& claim, const Volume& volume, int64_t wanted, int64_t has);
  Outcome AwaitImage(const Claim& claim, const Volume& volume, int64_t wanted);
  Outcome ExpandVolume(const Claim& claim, const Volume& volume, int64_t wanted, int64_t has);

  volume::PluginRegistry& plugins_;
  kube::Informer<Volume>& volumes_;
  ClaimGrowth growth_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::pluginexpander
