#include "node/driver_identity.h"

#include <filesystem>

#include "base/log.h"
#include "rpc/csi_client.h"

namespace berth::node {
namespace {

using base::StatusOr;

constexpr auto kGetInfoTimeout = std::chrono::seconds(1);
constexpr auto kNodeGetInfoTimeout = std::chrono::minutes(2);
constexpr std::string_view kScheme = "unix://";

}  // namespace

StatusOr<rpc::PluginInfo> AskRegistrationSocket(const std::string& socket) {
  ASSIGN_OR_RETURN(rpc::PluginInfo info, rpc::GetPluginInfo(socket, kGetInfoTimeout));
  if (info.endpoint.empty()) info.endpoint = socket;
  if (info.endpoint.starts_with(kScheme)) info.endpoint.erase(0, kScheme.size());
  return info;
}

StatusOr<rpc::PluginInfo> AskDriverSocket(const std::string& socket) {
  const std::string folder = std::filesystem::path(socket).parent_path().filename();
  ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(socket));
  ASSIGN_OR_RETURN(const auto info, client->GetPluginInfo({}, kGetInfoTimeout));
  if (info.name() != folder) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "the driver calls itself {}, but its socket is in the folder {}",
                       base::Quote(info.name()), base::Quote(folder));
  }
  return rpc::PluginInfo{.type = "CSIPlugin",
                         .name = info.name(),
                         .endpoint = socket,
                         .supported_versions = {"1.0.0"}};
}

StatusOr<NodeDriver> AskNodeInfo(const std::string& name, const std::string& endpoint) {
  ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(endpoint));
  const auto info = client->NodeGetInfo(csi::v1::NodeGetInfoRequest(), kNodeGetInfoTimeout);
  RETURN_IF_ERROR(info);
  NodeDriver driver{
      .name = name, .node_id = info->node_id(), .max_volumes = info->max_volumes_per_node()};
  for (const auto& [key, value] : info->accessible_topology().segments()) {
    driver.topology[key] = value;
  }
  return driver;
}

}  // namespace berth::node
