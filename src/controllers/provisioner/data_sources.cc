#include "controllers/provisioner/data_sources.h"

#include <algorithm>

#include "api/quantity.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/provisioner/reference_grants.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

// nullopt: the claim names neither a claim nor a snapshot.
std::optional<DataSources::Source> FindSource(const api::PersistentVolumeClaim& claim) {
  const std::string ns = DataSourceNamespace(claim);
  if (const std::string clone = CloneSourceName(claim); !clone.empty()) {
    return DataSources::Source{.snapshot = false, .key = api::ObjectKey(ns, clone)};
  }
  const std::string snapshot = SnapshotSourceName(claim);
  if (snapshot.empty()) return std::nullopt;
  return DataSources::Source{.snapshot = true, .key = api::ObjectKey(ns, snapshot)};
}

}  // namespace

// A release makes a few requests to the API, each of which has a deadline.
DataSources::Opening::Opening(DataSources& sources, const Claim& claim)
    : sources_(sources), source_(FindSource(claim)) {
  if (!source_.has_value()) return;
  base::MutexLock lock(sources_.mutex_);
  sources_.opening_.insert(*source_);
  while (sources_.releasing_.contains(*source_)) sources_.released_.Wait(sources_.mutex_);
}

DataSources::Opening::~Opening() {
  if (!source_.has_value()) return;
  bool free = false;
  {
    base::MutexLock lock(sources_.mutex_);
    sources_.opening_.erase(sources_.opening_.find(*source_));
    free = !sources_.opening_.contains(*source_) && sources_.put_off_.erase(*source_) > 0;
  }
  if (free) sources_.callbacks_.source_free(*source_);
}

DataSources::Releasing::Releasing(DataSources& sources, Source source)
    : sources_(sources), source_(std::move(source)) {
  base::MutexLock lock(sources_.mutex_);
  if (sources_.opening_.contains(source_)) {
    sources_.put_off_.insert(source_);
  } else {
    may_release_ = sources_.releasing_.insert(source_).second;
  }
}

DataSources::Releasing::~Releasing() {
  if (!may_release_) return;
  base::MutexLock lock(sources_.mutex_);
  sources_.releasing_.erase(source_);
  sources_.released_.NotifyAll();
}

DataSources::DataSources(const Context& context, const Options& options, const Attempts& attempts,
                         Callbacks callbacks)
    : context_(context),
      options_(options),
      attempts_(attempts),
      callbacks_(std::move(callbacks)),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<api::PersistentVolume>()) {}

base::Status DataSources::CheckNamespace(const Claim& claim) const {
  if (DataSourceNamespace(claim) == claim.ns()) return base::OkStatus();
  if (!options_.cross_namespace_sources) {
    return Error(StatusCode::kInvalidArgument,
                 "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature "
                 "is disabled");
  }
  return CheckGranted(claim, context_.client);
}

StatusOr<bool> DataSources::IsNeededBy(
    const std::string& ns, const std::vector<std::shared_ptr<const Claim>>& claims) const {
  if (claims.empty()) return false;
  if (options_.node_deployment.enabled()) return true;
  const bool needed = std::ranges::any_of(claims, [&](const auto& claim) {
    // The driver may still read the source, whatever is granted now.
    return claim->ns() == ns || attempts_.MayHaveVolume(*claim);
  });
  if (needed) return true;
  if (!attempts_.taken_over()) {
    return Error(StatusCode::kUnavailable, "the intents of the last process are not known yet");
  }
  if (!options_.cross_namespace_sources) return false;
  const auto grants = ListGrants(ns, context_.client);
  if (grants.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR_WITH(grants, fmt::format("ReferenceGrants in namespace '{}'", ns));
  return std::ranges::any_of(claims,
                             [&](const auto& claim) { return CheckGranted(*claim, *grants).ok(); });
}

StatusOr<std::optional<csi::v1::VolumeContentSource>> DataSources::HoldSource(
    const Claim& claim, const DriverInfo& driver) {
  const api::Part reference = claim.data_source();
  const std::string kind = reference.String({"kind"});
  const std::string group = reference.String({"apiGroup"});
  if (kind.empty()) return std::nullopt;
  RETURN_IF_ERROR(CheckNamespace(claim));
  const std::string clone = CloneSourceName(claim);
  const std::string snapshot = SnapshotSourceName(claim);
  if (clone.empty() && snapshot.empty()) {
    // Another program fills such volumes: it makes the volume itself and binds it to the claim.
    context_.events.Record(claim.reference(), base::EventType::kNormal, "Provisioning",
                           fmt::format("Assuming an external populator will provision the volume "
                                       "for the dataSource of kind '{}' in group '{}'",
                                       kind, group));
    return Error(StatusCode::kUnimplemented, "dataSource of kind '{}' is left to a populator",
                 kind);
  }
  if (!clone.empty()) {
    ASSIGN_OR_RETURN(csi::v1::VolumeContentSource source, HoldClone(claim, clone, driver));
    return source;
  }
  ASSIGN_OR_RETURN(csi::v1::VolumeContentSource source, HoldSnapshot(claim, snapshot, driver));
  return source;
}

StatusOr<csi::v1::VolumeContentSource> DataSources::HoldClone(const Claim& claim,
                                                              const std::string& source_name,
                                                              const DriverInfo& driver) {
  const auto refuse = [&](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "clone claim '{}': {}", source_name, why);
  };
  if (!driver.Has(DriverInfo::Rpc::CLONE_VOLUME)) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' cannot clone volumes", driver.name);
  }
  const auto source = claims_.Get(DataSourceNamespace(claim), source_name);
  if (source == nullptr) return refuse("it is not there");
  // A source that is being deleted may still be used while it is held, because this or another
  // program may have begun to make the copy. If that were refused, the source would stay until
  // somebody deletes the claim.
  if (source->deleting() && !source->has_finalizer(kCloningProtection)) {
    return refuse("it is being deleted");
  }
  if (source->phase() != "Bound" || !IsBound(*source)) return refuse("it is not bound");
  if (!source->storage_class_name().has_value() || !claim.storage_class_name().has_value()) {
    return refuse("both claims must name a class");
  }
  const auto volume = volumes_.Get(source->volume_name());
  if (volume == nullptr || volume->claim_uid() != source->uid() || !RefersTo(*volume, *source) ||
      volume->phase() != "Bound") {
    return refuse(fmt::format("its volume '{}' is not bound to it", source->volume_name()));
  }
  if (!volume->has_csi() || volume->csi().driver() != driver.name) {
    return refuse(fmt::format("its volume is not of driver '{}'", driver.name));
  }
  if (source->volume_mode() != claim.volume_mode()) {
    return refuse(
        fmt::format("its volumeMode is {}, not {}", source->volume_mode(), claim.volume_mode()));
  }
  const StatusOr<int> compared =
      api::CompareQuantities(claim.requested_storage(), source->requested_storage());
  if (!compared.ok() || *compared < 0) {
    return refuse(
        fmt::format("the copy must have at least its size, {}", source->requested_storage()));
  }
  if (!source->has_finalizer(kCloningProtection)) {
    RETURN_IF_ERROR(UpdateAt(context_.client, claims_, *source,
                             FinalizersPatch(*source, kCloningProtection, "")));
  }
  csi::v1::VolumeContentSource out;
  out.mutable_volume()->set_volume_id(volume->csi().volume_handle());
  return out;
}

DataSources::Outcome DataSources::ReleaseClone(const std::string& key, const DriverInfo& driver) {
  const auto source = claims_.Get(key);
  if (source == nullptr || !source->has_finalizer(kCloningProtection)) return Outcome::Done();
  // A source whose volume is gone, or that of an in-tree plugin, is released by any driver's
  // provisioner, as all sources are by Go's.
  const auto volume = volumes_.Get(source->volume_name());
  if (volume != nullptr && volume->has_csi() && volume->csi().driver() != driver.name) {
    return Outcome::Done();
  }
  const Releasing releasing(*this, {.snapshot = false, .key = key});
  if (!releasing.may_release()) return Outcome::Done();
  // The binding or deletion of these claims queues the source again.
  const auto needed = IsNeededBy(source->ns(), claims_.ByIndex(kClaimsBySource, key));
  if (!needed.ok()) return AfterApi(needed.status());
  if (*needed) return Outcome::Done();
  return AfterApi(
      UpdateAt(context_.client, claims_, *source, FinalizersPatch(*source, "", kCloningProtection))
          .status());
}

}  // namespace berth::controllers::provisioner
