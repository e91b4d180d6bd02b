#include "node/drivers/driver_identity.h"

#include <filesystem>

#include "base/log.h"
#include "rpc/csi_client.h"
#include "rpc/unix_socket.h"

namespace berth::node {
namespace {

using base::StatusOr;

constexpr auto kGetInfoTimeout = std::chrono::seconds(1);
constexpr auto kNodeGetInfoTimeout = std::chrono::minutes(2);

}  // namespace

StatusOr<rpc::PluginInfo> AskRegistrationSocket(const std::string& socket) {
  ASSIGN_OR_RETURN(rpc::PluginInfo info, rpc::GetPluginInfo(socket, kGetInfoTimeout));
  if (info.endpoint.empty()) info.endpoint = socket;
  ASSIGN_OR_RETURN(info.endpoint, rpc::SocketPath(info.endpoint));
  return info;
}

StatusOr<rpc::PluginInfo> AskDriverSocket(const std::string& socket) {
  ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(socket));
  ASSIGN_OR_RETURN(const auto info, client->GetPluginInfo({}, kGetInfoTimeout));
  return rpc::PluginInfo{.type = "CSIPlugin",
                         .name = info.name(),
                         .endpoint = socket,
                         .supported_versions = {"1.0.0"}};
}

base::Status CheckDriverFolder(const std::string& socket, const std::string& driver) {
  const std::string folder = std::filesystem::path(socket).parent_path().filename();
  if (driver == folder) return base::OkStatus();
  return base::Error(base::StatusCode::kInvalidArgument,
                     "the driver calls itself {}, but its socket is in the folder {}: name the "
                     "folder after it, or announce it by a registration socket",
                     base::Quote(driver), base::Quote(folder));
}

StatusOr<NodeDriver> DriverQuestions::AskNodeInfo(const std::string& name,
                                                  const std::string& endpoint) {
  ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(endpoint));
  {
    base::MutexLock lock(mutex_);
    if (cancelled_) client->CancelAll();
    asked_.insert(client.get());
  }
  const auto info = client->NodeGetInfo(csi::v1::NodeGetInfoRequest(), kNodeGetInfoTimeout);
  {
    base::MutexLock lock(mutex_);
    asked_.erase(client.get());
  }
  RETURN_IF_ERROR(info);
  NodeDriver driver{
      .name = name, .node_id = info->node_id(), .max_volumes = info->max_volumes_per_node()};
  for (const auto& [key, value] : info->accessible_topology().segments()) {
    driver.topology[key] = value;
  }
  return driver;
}

void DriverQuestions::Cancel() {
  base::MutexLock lock(mutex_);
  cancelled_ = true;
  for (rpc::CsiClient* client : asked_) client->CancelAll();
}

}  // namespace berth::node
