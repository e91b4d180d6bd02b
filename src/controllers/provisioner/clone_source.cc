// Claims whose volume starts as a copy of another claim's (provisioner.h).
#include "api/quantity.h"
#include "controllers/claims.h"
#include "controllers/names.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kCloningProtection =
    "provisioner.storage.kubernetes.io/cloning-protection";

}  // namespace

StatusOr<csi::v1::VolumeContentSource> Provisioner::CloneSource(const Claim& claim,
                                                                const std::string& source_name,
                                                                const DriverInfo& driver) {
  const auto refuse = [&](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "clone claim '{}': {}", source_name, why);
  };
  if (!driver.Has(DriverInfo::Rpc::CLONE_VOLUME)) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' cannot clone volumes", driver.name);
  }
  const auto source = claims_.Get(claim.ns(), source_name);
  if (source == nullptr) return refuse("it is not there");
  // One that is held for a copy that may exist already stays until the outcome is known.
  const bool begun =
      claim.has_finalizer(kProvisioningFinalizer) && source->has_finalizer(kCloningProtection);
  if (source->deleting() && !begun) return refuse("it is being deleted");
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

Provisioner::Outcome Provisioner::SyncCloneSource(const std::string& key) {
  const auto driver = driver_.info();
  const auto source = claims_.Get(key);
  if (driver == nullptr || source == nullptr || !source->has_finalizer(kCloningProtection)) {
    return Outcome::Done();
  }
  const auto volume = volumes_.Get(source->volume_name());
  if (volume == nullptr || !volume->has_csi() || volume->csi().driver() != driver->name) {
    return Outcome::Done();
  }
  // Their binding or deletion brings the source here again.
  if (!claims_.ByIndex(kClaimsBySource, key).empty()) return Outcome::Done();
  return AfterApi(
      UpdateAt(context_.client, claims_, *source, FinalizersPatch(*source, "", kCloningProtection))
          .status());
}

}  // namespace berth::controllers::provisioner
