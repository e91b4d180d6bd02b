#include "volume/csi/release.h"

#include "base/log.h"
#include "volume/csi/node_inputs.h"

namespace berth::volume::csi_volume {
namespace {

Status ToResult(const Status& answer, const Record& record) {
  if (answer.code() != base::StatusCode::kNotFound) return answer;
  LOG_WARNING("volume '{}' counts as released, because driver '{}' does not know it: {}",
              record.handle, record.driver, base::Message(answer));
  return base::OkStatus();
}

}  // namespace

Status UnpublishByDriver(rpc::CsiClient& driver, const Record& record,
                         const platform::TargetPath& target) {
  const auto answer = driver.NodeUnpublishVolume(
      MakeUnpublishRequest(api::VolumeHandle(record.handle), target), kCsiTimeout);
  return ToResult(answer.status(), record);
}

Status UnpublishByDriver(DriverClients& drivers, const Record& record,
                         const platform::TargetPath& target) {
  ASSIGN_OR_RETURN(const auto client, drivers.Get(record.driver));
  return UnpublishByDriver(client->rpc(), record, target);
}

Status UnstageByDriver(rpc::CsiClient& driver, const Record& record,
                       const platform::StagingPath& staging) {
  const auto answer = driver.NodeUnstageVolume(
      MakeUnstageRequest(api::VolumeHandle(record.handle), staging), kCsiTimeout);
  return ToResult(answer.status(), record);
}

Status UnstageByDriver(DriverClients& drivers, const Record& record,
                       const platform::StagingPath& staging) {
  ASSIGN_OR_RETURN(const auto client, drivers.Get(record.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  if (!capabilities.stage_unstage) return base::OkStatus();
  return UnstageByDriver(client->rpc(), record, staging);
}

}  // namespace berth::volume::csi_volume
