#include "controllers/pluginexpander/plugin_expander.h"

#include <array>

#include "api/kinds/attachable.h"
#include "api/kinds/block_kinds.h"
#include "api/quantity.h"
#include "controllers/claim_conditions.h"
#include "controllers/claims.h"
#include "controllers/writes.h"

namespace berth::controllers::pluginexpander {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The block agent's are grown by the block operator: their driver only mounts.
bool IsOfPlugin(const api::PersistentVolume& volume) {
  if (api::FlexDriverOf(volume) == api::kBlockDriver) return false;
  const auto attachable = api::AttachableOf(volume);
  return attachable.has_value() && attachable->attacher == api::kFlexAttacher;
}

}  // namespace

PluginExpander::PluginExpander(Context context, volume::PluginRegistry& plugins, Options options)
    : context_(context),
      plugins_(plugins),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      workers_({.name = "plugin-expand",
                .workers = options.workers,
                .retry_start = options.retry_start,
                .retry_max = options.retry_max,
                .flight = context.flight},
               [this](const std::string& key) { return Sync(key); }) {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    const bool asks = change.before == nullptr ||
                      change.before->requested_storage() != change.after->requested_storage() ||
                      change.before->volume_name() != change.after->volume_name();
    if (asks) workers_.AddNow(change.key);
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after != nullptr && change.before == nullptr && IsOfPlugin(*change.after)) {
      workers_.Add(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
  });
}

PluginExpander::~PluginExpander() { Stop(); }

void PluginExpander::PluginChanged(const std::string& plugin) {
  volumes_.ForEach([&](const Volume& volume) {
    if (api::FlexDriverOf(volume) == plugin) {
      workers_.AddNow(api::ObjectKey(volume.claim_namespace(), volume.claim_name()));
    }
  });
}

PluginExpander::Outcome PluginExpander::Sync(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || !IsBound(*claim)) return Outcome::Done();
  const auto volume = volumes_.Get(claim->volume_name());
  if (volume == nullptr || !RefersTo(*volume, *claim) || !IsOfPlugin(*volume)) {
    return Outcome::Done();
  }
  const auto wanted = api::ParseBytes(claim->requested_storage());
  const auto has = api::ParseBytes(volume->capacity());
  if (!wanted.ok() || !has.ok()) return Outcome::Done();
  if (*wanted > *has) return Expand(*claim, *volume, *wanted, *has);
  // A crash came between the volume's new size and this.
  return HasCondition(*claim, kResizing) ? LeaveToNode(*claim) : Outcome::Done();
}

PluginExpander::Outcome PluginExpander::Expand(const Claim& claim, const Volume& volume,
                                               int64_t wanted, int64_t has) {
  const volume::VolumeSpec spec{.claim = std::make_shared<const Claim>(claim),
                                .pv = std::make_shared<const Volume>(volume)};
  const auto plugin = plugins_.Find(spec);
  // PluginChanged tells when there is one.
  if (plugin.status().code() == StatusCode::kFailedPrecondition) return Outcome::Done();
  if (!plugin.ok()) return Failed(claim, plugin.status());
  volume::VolumeAttacher* const attacher = (*plugin)->attacher();
  if (attacher == nullptr) return Outcome::Done();
  const StatusOr<Claim> resizing = SayResizing(claim);
  if (!resizing.ok()) return AfterApi(resizing.status());
  if (const Status grown = attacher->ExpandVolume(spec, wanted, has); !grown.ok()) {
    return Failed(*resizing, grown);
  }
  const auto written =
      PatchAt(context_.client, volumes_, volume,
              {{"spec", {{"capacity", {{"storage", claim.requested_storage()}}}}}});
  if (!written.ok()) return AfterApi(written.status());
  return LeaveToNode(*resizing);
}

StatusOr<PluginExpander::Claim> PluginExpander::SayResizing(const Claim& claim) {
  if (HasCondition(claim, kResizing)) return claim;
  context_.events.Record(claim.reference(), base::EventType::kNormal, "Resizing",
                         fmt::format("growing the volume to {}", claim.requested_storage()));
  return PatchAt(
      context_.client, claims_, claim,
      {{"status",
        {{"conditions", Conditions(claim, {}, Condition(kResizing, "", context_.clock))}}}},
      "status");
}

PluginExpander::Outcome PluginExpander::LeaveToNode(const Claim& claim) {
  constexpr std::array kDone = {kResizing};
  return AfterApi(
      PatchAt(context_.client, claims_, claim,
              {{"status",
                {{"conditions", Conditions(claim, kDone,
                                           Condition(kFileSystemResizePending,
                                                     "waiting for the node to grow the file system",
                                                     context_.clock))}}}},
              "status")
          .status());
}

PluginExpander::Outcome PluginExpander::Failed(const Claim& claim, const Status& why) {
  context_.events.Record(
      claim.reference(), base::EventType::kWarning, "VolumeResizeFailed",
      fmt::format("growing the volume to {}: {}", claim.requested_storage(), base::Message(why)));
  return Outcome::Retry(why);
}

}  // namespace berth::controllers::pluginexpander
