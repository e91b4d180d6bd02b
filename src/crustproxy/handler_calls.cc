#include "crustproxy/handler_calls.h"

#include <algorithm>

#include "node/volumes/crust_deferral.h"
#include "platform/walks/usage.h"
#include "rpc/crust_client.h"

namespace berth::crustproxy {
namespace {

namespace crust = rpc::crust;
using base::Status;
using base::StatusOr;

constexpr std::chrono::seconds kAsk(10);
constexpr std::chrono::seconds kPublish(60);
// The handler answers within a minute also if the device stays busy (docs/crust.md), and its answer
// says who holds it. The kubelet waits for two minutes.
constexpr std::chrono::seconds kUnpublish(90);
// As long as the kubelet waits for NodeExpandVolume.
constexpr std::chrono::minutes kGrow(2);

void AddUsage(csi::v1::NodeGetVolumeStatsResponse& response, csi::v1::VolumeUsage::Unit unit,
              int64_t total, int64_t used, int64_t available) {
  csi::v1::VolumeUsage* usage = response.add_usage();
  usage->set_unit(unit);
  usage->set_total(total);
  usage->set_used(used);
  usage->set_available(available);
}

}  // namespace

Status PublishToPod(const PodUse& use, bool read_only) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(use.handler));
  crust::RuntimePublishVolumeRequest request =
      node::MakePublishRequest(use.mount, use.target.text(), read_only);
  request.set_pod_uid(use.pod.text());
  return client->RuntimePublishVolume(request, kPublish).status();
}

Status UnpublishFromPod(const PodUse& use) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(use.handler));
  crust::RuntimeUnpublishVolumeRequest request;
  request.set_pod_uid(use.pod.text());
  request.set_host_volume_id(use.mount.source);
  request.set_host_target_path(use.target.text());
  return client->RuntimeUnpublishVolume(request, kUnpublish).status();
}

StatusOr<csi::v1::NodeGetVolumeStatsResponse> AskHandlerForStats(const PodUse& use) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(use.handler));
  crust::RuntimeGetVolumeStatsRequest request;
  request.set_pod_uid(use.pod.text());
  request.set_host_volume_id(use.mount.source);
  ASSIGN_OR_RETURN(const auto answer, client->RuntimeGetVolumeStats(request, kAsk));
  csi::v1::NodeGetVolumeStatsResponse response;
  for (const crust::VolumeUsage& usage : answer.usage()) {
    AddUsage(response, static_cast<csi::v1::VolumeUsage::Unit>(usage.unit()), usage.total(),
             usage.used(), usage.available());
  }
  if (answer.has_volume_condition()) {
    response.mutable_volume_condition()->set_abnormal(answer.volume_condition().abnormal());
    response.mutable_volume_condition()->set_message(answer.volume_condition().message());
  }
  return response;
}

StatusOr<bool> HandlerGrowsVolumes(const PodUse& use) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(use.handler));
  ASSIGN_OR_RETURN(const auto offer, client->RuntimeGetCapabilities({}, kAsk));
  return std::ranges::any_of(offer.capabilities(), [](const auto& capability) {
    return capability.rpc().type() == crust::RuntimeCapability::RPC::VOLUME_RESIZE;
  });
}

StatusOr<int64_t> AskHandlerToGrow(const PodUse& use, int64_t required_bytes) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(use.handler));
  crust::RuntimeExpandVolumeRequest request;
  request.set_pod_uid(use.pod.text());
  request.set_host_volume_id(use.mount.source);
  request.set_required_bytes(required_bytes);
  ASSIGN_OR_RETURN(const auto answer, client->RuntimeExpandVolume(request, kGrow));
  return answer.capacity_bytes();
}

StatusOr<csi::v1::NodeGetVolumeStatsResponse> ReadStatsOnHost(const std::string& path) {
  ASSIGN_OR_RETURN(const platform::FileSystemUsage usage, platform::GetFileSystemUsage(path));
  csi::v1::NodeGetVolumeStatsResponse response;
  AddUsage(response, csi::v1::VolumeUsage::BYTES, usage.total_bytes, usage.used_bytes,
           usage.available_bytes);
  AddUsage(response, csi::v1::VolumeUsage::INODES, usage.total_inodes, usage.used_inodes,
           usage.available_inodes);
  return response;
}

}  // namespace berth::crustproxy
