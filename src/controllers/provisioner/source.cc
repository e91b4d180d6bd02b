// What a claim's volume is to be filled from (provisioner.h).
#include "controllers/provisioner/provisioner.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::StatusCode;
using base::StatusOr;

StatusOr<std::optional<csi::v1::VolumeContentSource>> Provisioner::Source(
    const Claim& claim, const DriverInfo& driver) {
  const api::Part reference = claim.data_source();
  const std::string kind = reference.String({"kind"});
  const std::string group = reference.String({"apiGroup"});
  if (kind.empty()) return std::nullopt;
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
  if (const std::string ns = reference.String({"namespace"}); !ns.empty() && ns != claim.ns()) {
    return Error(StatusCode::kInvalidArgument,
                 "dataSourceRef names a {} in namespace '{}': data crosses no namespaces", kind,
                 ns);
  }
  if (!clone.empty()) {
    ASSIGN_OR_RETURN(csi::v1::VolumeContentSource source, CloneSource(claim, clone, driver));
    return source;
  }
  ASSIGN_OR_RETURN(csi::v1::VolumeContentSource source, SnapshotSource(claim, snapshot, driver));
  return source;
}

}  // namespace berth::controllers::provisioner
