// Keeps one client for each driver's socket, and the capabilities of the driver.
//
// A driver that restarts makes a new socket file. Then a new client is made, and the driver is
// asked for its capabilities again. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "rpc/csi_client.h"
#include "volume/host.h"

namespace berth::volume {

// csiTimeout of the kubelet.
inline constexpr std::chrono::minutes kCsiTimeout{2};

// The answer of NodeGetCapabilities.
struct NodeCapabilities {
  bool stage_unstage = false;
  bool volume_stats = false;
  bool expand = false;
  bool single_node_multi_writer = false;
  bool volume_mount_group = false;
  bool volume_condition = false;
  bool runtime_assisted_mount = false;
};
NodeCapabilities ReadNodeCapabilities(const csi::v1::NodeGetCapabilitiesResponse& answer);

class DriverClient {
 public:
  DriverClient(std::string driver, std::unique_ptr<rpc::CsiClient> rpc)
      : driver_(std::move(driver)), rpc_(std::move(rpc)) {}

  const std::string& driver() const { return driver_; }
  rpc::CsiClient& rpc() { return *rpc_; }
  // Calls NodeGetCapabilities, until it has succeeded once. Errors are the driver's.
  base::StatusOr<NodeCapabilities> GetCapabilities();

 private:
  const std::string driver_;
  const std::unique_ptr<rpc::CsiClient> rpc_;
  base::Mutex mutex_;
  std::optional<NodeCapabilities> capabilities_ ABSL_GUARDED_BY(mutex_);
};

class DriverClients {
 public:
  explicit DriverClients(Host& host) : host_(host) {}

  // The client of a driver. UNAVAILABLE: the driver is not registered on this node.
  base::StatusOr<std::shared_ptr<DriverClient>> Get(const std::string& driver);

  // Ends running and later calls with CANCELLED (CsiClient::CancelAll).
  void CancelCalls();

 private:
  // Identifies the socket file for which a client was made.
  struct SocketIdentity {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
    int64_t changed_ns = 0;
    bool operator==(const SocketIdentity&) const = default;
  };
  struct Entry {
    SocketIdentity socket;
    std::shared_ptr<DriverClient> client;
  };
  static SocketIdentity Identify(const std::string& path);

  Host& host_;
  base::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Clients of drivers that were replaced meanwhile: a call of such a client may still run.
  std::vector<std::weak_ptr<DriverClient>> replaced_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::volume
