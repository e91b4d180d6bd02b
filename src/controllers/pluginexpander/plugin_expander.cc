#include "controllers/pluginexpander/plugin_expander.h"

#include "api/kinds/attachable.h"
#include "api/kinds/block_kinds.h"
#include "api/quantity.h"
#include "controllers/writes.h"

namespace berth::controllers::pluginexpander {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsOfBlockAgent(const api::PersistentVolume& volume) {
  return api::FlexDriverOf(volume) == api::kBlockDriver;
}

bool IsOfPlugin(const api::PersistentVolume& volume) {
  const auto attachable = api::AttachableOf(volume);
  return attachable.has_value() && attachable->attacher == api::kFlexAttacher;
}

}  // namespace

PluginExpander::PluginExpander(Context context, volume::PluginRegistry& plugins, Options options)
    : plugins_(plugins),
      volumes_(context.informers.Of<Volume>()),
      growth_(context, &IsOfPlugin),
      workers_({.name = "plugin-expand",
                .workers = options.workers,
                .retry_start = options.retry_start,
                .retry_max = options.retry_max,
                .flight = context.flight},
               [this](const std::string& key) {
                 return growth_.SyncClaim(
                     key, [this](const Claim& claim, const Volume& volume, int64_t wanted,
                                 int64_t has) { return GrowVolume(claim, volume, wanted, has); });
               }) {
  growth_.WatchClaims(workers_);
}

PluginExpander::~PluginExpander() { Stop(); }

void PluginExpander::PluginChanged(const std::string& plugin) {
  volumes_.ForEach([&](const Volume& volume) {
    if (api::FlexDriverOf(volume) == plugin) {
      workers_.AddNow(api::ObjectKey(volume.claim_namespace(), volume.claim_name()));
    }
  });
}

PluginExpander::Outcome PluginExpander::GrowVolume(const Claim& claim, const Volume& volume,
                                                   int64_t wanted, int64_t has) {
  return IsOfBlockAgent(volume) ? AwaitImage(claim, volume, wanted)
                                : ExpandVolume(claim, volume, wanted, has);
}

PluginExpander::Outcome PluginExpander::AwaitImage(const Claim& claim, const Volume& volume,
                                                   int64_t wanted) {
  const StatusOr<Claim> resizing = growth_.BeginGrowth(claim);
  if (!resizing.ok()) return AfterApi(resizing.status());
  const std::string size = volume.annotation(kImageSize);
  const StatusOr<int64_t> bytes = api::ParseBytes(size);
  // WatchClaims queues the claim when the operator has grown the image. The operator also reports
  // why it cannot.
  if (!bytes.ok() || *bytes < wanted) return Outcome::Done();
  return growth_.FinishGrowth(*resizing, volume, size);
}

PluginExpander::Outcome PluginExpander::ExpandVolume(const Claim& claim, const Volume& volume,
                                                     int64_t wanted, int64_t has) {
  const volume::VolumeSpec spec{.claim = std::make_shared<const Claim>(claim),
                                .pv = std::make_shared<const Volume>(volume)};
  const auto plugin = plugins_.Find(spec);
  // PluginChanged queues the claim when the plugin is ready.
  if (plugin.status().code() == StatusCode::kFailedPrecondition) return Outcome::Done();
  if (!plugin.ok()) return growth_.ReportFailure(claim, plugin.status());
  volume::VolumeAttacher* const attacher = (*plugin)->attacher();
  if (attacher == nullptr) return Outcome::Done();
  const StatusOr<Claim> resizing = growth_.BeginGrowth(claim);
  if (!resizing.ok()) return AfterApi(resizing.status());
  if (const Status grown = attacher->ExpandVolume(spec, wanted, has); !grown.ok()) {
    return growth_.ReportFailure(*resizing, grown);
  }
  return growth_.FinishGrowth(*resizing, volume, claim.requested_storage());
}

}  // namespace berth::controllers::pluginexpander
