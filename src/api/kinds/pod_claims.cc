#include "api/kinds/pod_claims.h"

namespace berth::api {

std::string FindClaimName(const Pod& pod, const PodVolume& volume) {
  if (!volume.claim_name().empty()) return volume.claim_name();
  return volume.Has({"ephemeral"}) ? pod.name() + "-" + volume.name() : "";
}

}  // namespace berth::api
