#include "volume/csi/driver_clients.h"

#include <sys/stat.h>

namespace berth::volume {

NodeCapabilities ReadNodeCapabilities(const csi::v1::NodeGetCapabilitiesResponse& answer) {
  using Rpc = csi::v1::NodeServiceCapability::RPC;
  NodeCapabilities found;
  for (const auto& capability : answer.capabilities()) {
    switch (capability.rpc().type()) {
      case Rpc::STAGE_UNSTAGE_VOLUME:
        found.stage_unstage = true;
        break;
      case Rpc::GET_VOLUME_STATS:
        found.volume_stats = true;
        break;
      case Rpc::EXPAND_VOLUME:
        found.expand = true;
        break;
      case Rpc::SINGLE_NODE_MULTI_WRITER:
        found.single_node_multi_writer = true;
        break;
      case Rpc::VOLUME_MOUNT_GROUP:
        found.volume_mount_group = true;
        break;
      case Rpc::VOLUME_CONDITION:
        found.volume_condition = true;
        break;
      case Rpc::RUNTIME_ASSISTED_MOUNT:
        found.runtime_assisted_mount = true;
        break;
      default:
        break;
    }
  }
  return found;
}

base::StatusOr<NodeCapabilities> DriverClient::GetCapabilities() {
  {
    base::MutexLock lock(mutex_);
    if (capabilities_.has_value()) return *capabilities_;
  }
  csi::v1::NodeGetCapabilitiesRequest request;
  request.set_runtime_supports_mount(true);
  ASSIGN_OR_RETURN(const auto answer, rpc_->NodeGetCapabilities(request, kCsiTimeout));
  base::MutexLock lock(mutex_);
  capabilities_ = ReadNodeCapabilities(answer);
  return *capabilities_;
}

DriverClients::SocketIdentity DriverClients::Identify(const std::string& path) {
  SocketIdentity identity{.path = path};
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    identity.device = info.st_dev;
    identity.inode = info.st_ino;
    identity.changed_ns = info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
  }
  return identity;
}

base::StatusOr<std::shared_ptr<DriverClient>> DriverClients::Get(const std::string& driver) {
  ASSIGN_OR_RETURN(const std::string path, host_.drivers().FindSocket(driver));
  const SocketIdentity identity = Identify(path);
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[driver];
  if (entry.client == nullptr || entry.socket != identity) {
    auto rpc = rpc::CsiClient::New(path);
    RETURN_IF_ERROR_WITH(rpc, fmt::format("CSI driver '{}'", driver));
    if (cancelled_) (*rpc)->CancelAll();
    std::erase_if(replaced_, [](const auto& client) { return client.expired(); });
    if (entry.client != nullptr) replaced_.push_back(entry.client);
    entry = {.socket = identity, .client = std::make_shared<DriverClient>(driver, *std::move(rpc))};
  }
  return entry.client;
}

void DriverClients::CancelCalls() {
  base::MutexLock lock(mutex_);
  cancelled_ = true;
  for (const auto& [driver, entry] : entries_) {
    if (entry.client != nullptr) entry.client->rpc().CancelAll();
  }
  for (const auto& old : replaced_) {
    if (const auto client = old.lock()) client->rpc().CancelAll();
  }
}

}  // namespace berth::volume
