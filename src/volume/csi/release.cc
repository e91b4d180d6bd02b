#include "volume/csi/deleted_volume.h"

#include "base/log.h"

namespace berth::volume::csi_volume {

Status ToReleaseResult(const Status& answer, const Record& record) {
  if (answer.code() != base::StatusCode::kNotFound) return answer;
  LOG_WARNING("volume '{}' counts as released, because driver '{}' does not know it: {}",
              record.handle, record.driver, base::Message(answer));
  return base::OkStatus();
}

}  // namespace berth::volume::csi_volume
