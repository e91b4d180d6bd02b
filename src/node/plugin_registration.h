// Registers CSI drivers whose registration sockets appear in the kubelet's plugins_registry folder.
//
//   socket seen ─▶ GetInfo ─▶ validate ─▶ DriverRegistry ─▶ NodeGetInfo ─▶ Node, CSINode ─▶
//   Notify(true)
//        ▲            └───────────┴── failed: rolled back, Notify(false, why), again after a
//        backoff
//   socket gone ─▶ DriverRegistry, CSINode, Node: the driver is taken out
//   socket made anew at the same path ─▶ registered anew
//   the API has lost what it was told ─▶ Node, CSINode written again
//
// Names that begin with '.' and what is no socket are ignored; folders in the registry are searched
// too. A failure of the API is no fault of the driver: it is retried without telling the driver,
// which would exit. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "node/csi_node.h"
#include "platform/watch_folder.h"
#include "rpc/registration_client.h"
#include "volume/host.h"

namespace berth::node {

// "1.10.0" of "v1.10.0"; parts that are missing are zero.
struct PluginVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  auto operator<=>(const PluginVersion&) const = default;
};
// The highest version with major 1; those from 2 on are ignored. INVALID_ARGUMENT: there is none,
// one is no version, or one is older than 1.
base::StatusOr<PluginVersion> HighestVersion(const std::vector<std::string>& versions);

struct PluginRegistrationOptions {
  std::string folder;  // "<kubelet>/plugins_registry"; made if missing
  std::chrono::milliseconds retry_start{500};
  std::chrono::milliseconds retry_max{122'000};
  // Told why a driver's registration was refused, each time; may be empty.
  std::function<void(const base::Status& why)> on_refused;
};

class PluginRegistration {
 public:
  // `on_registered` is called with a driver's name once it can be used. Everything outlives this.
  PluginRegistration(PluginRegistrationOptions options, CsiNodes& csi_nodes,
                     volume::DriverRegistry& drivers,
                     std::function<void(const std::string& driver)> on_registered);
  ~PluginRegistration() { Stop(); }

  base::Status Start();
  void Stop();

  // What the API was told of the drivers is lost: their node was deleted and is registered anew.
  void WriteAgain();

 private:
  // Which socket stood at a path.
  struct Identity {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  struct Registered {
    std::string driver;
    std::string endpoint;
    PluginVersion version;
    Identity identity;
  };
  struct Socket {
    std::optional<Identity> seen;  // none: it is gone
    std::optional<Registered> registered;
    bool write_again = false;  // the API lost what a registration had written
  };

  void Scan();
  static void Collect(const std::string& folder, int depth, std::map<std::string, Identity>& out);
  base::KeyedWorkers::Outcome Reconcile(const std::string& path);
  base::Status Register(const std::string& path, const Identity& identity);
  base::Status Validate(const std::string& path, const rpc::PluginInfo& info,
                        PluginVersion& version) const;
  base::StatusOr<NodeDriver> AskDriver(const std::string& name, const std::string& endpoint) const;
  base::Status Unregister(const std::string& path, const Registered& registered);
  void SetWriteAgain(const std::string& path, bool again);
  base::Status WriteOnceMore(const std::string& path, const Registered& registered);

  const PluginRegistrationOptions options_;
  CsiNodes& csi_nodes_;
  volume::DriverRegistry& drivers_;
  const std::function<void(const std::string&)> on_registered_;
  mutable base::Mutex mutex_;
  std::map<std::string, Socket> sockets_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers workers_;
  std::unique_ptr<platform::FolderWatch> watch_;
};

}  // namespace berth::node
