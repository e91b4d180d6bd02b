// Creates the node's CSINode object, and registers two kinds of CSI drivers: those whose
// registration sockets appear in the kubelet's plugins_registry folder (announced), and those that
// only have a socket at plugins/DRIVER/csi.sock (unannounced).
//
//   socket seen ─▶ GetInfo ─▶ validate ─▶ NodeGetInfo ─▶ DriverRegistry ─▶ Node, CSINode ─┐
//      ▲              │          │             │                                 │        ▼
//      │              └──────────┴──────┬──────┴─────────────────────────────────┘  Notify(true)
//      └── again after a backoff ◀── rolled back, Notify(false, why)
//   socket gone ─▶ the driver is removed from DriverRegistry, CSINode and Node
//   another socket at the same path ─▶ registered again
//   NodeGetInfo failed ─▶ the data of an earlier version are removed too
//   the API has lost the data ─▶ NodeGetInfo and all steps after it again
//   some time after the start ─▶ drivers that CSINode lists but that have not registered are
//                                removed, because their sockets went while no agent ran
//
// Names that begin with '.', and files that are no sockets, are ignored; subfolders of the registry
// are searched too. An unannounced driver is registered after a delay, because its registrar may be
// about to start. A driver that was announced once is registered only by its announcement from then
// on, because otherwise the end of its announcement would go unnoticed. A failure of the API is no
// fault of the driver. It is retried without telling the driver, which would exit, and a driver
// that was registered before stays usable. A driver that hangs does not delay the others.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "node/drivers/csi_node.h"
#include "node/drivers/driver_identity.h"
#include "platform/files/watch_folder.h"
#include "rpc/registration_client.h"
#include "volume/host.h"

namespace berth::node {

// The version "v1.10.0" or "1.10.0"; missing parts are zero.
struct PluginVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;
  auto operator<=>(const PluginVersion&) const = default;
};
// Returns the highest version with major 1; versions from 2 on are ignored. INVALID_ARGUMENT: there
// is no such version, a text is not a version, or a version is below 1.
base::StatusOr<PluginVersion> FindHighestVersion(const std::vector<std::string>& versions);

struct PluginRegistrationOptions {
  std::string folder;  // "<kubelet>/plugins_registry"; made if missing
  std::chrono::milliseconds retry_start{500};
  std::chrono::milliseconds retry_max{122'000};
  // Called each time a driver's registration is refused, with the reason; may be empty.
  std::function<void(const base::Status& why)> on_refused;
  // Called each time the API could not be written to, with the reason; may be empty.
  std::function<void(const base::Status& why)> on_delayed;
  // "<kubelet>/plugins", made if missing; "": unannounced drivers are not looked for.
  std::string plugins_folder = "";
  std::chrono::milliseconds unannounced_delay{10'000};
  // How long a driver that CSINode lists at the start may take to register. It must be longer than
  // unannounced_delay.
  std::chrono::milliseconds absent_delay{20'000};
};

class PluginRegistration {
 public:
  // `on_registered` is called with a driver's name, from a worker, when the driver can be used.
  // `csi_nodes` and `drivers` are borrowed and must outlive this object.
  PluginRegistration(PluginRegistrationOptions options, CsiNodes& csi_nodes,
                     volume::DriverRegistry& drivers,
                     std::function<void(const std::string& driver)> on_registered);
  ~PluginRegistration() { Stop(); }

  // Makes the folders and starts to watch them. An error: that failed.
  base::Status Start();
  void Stop();

  // Writes all drivers to the API again. Called when the Node or CSINode object was deleted.
  void WriteAgain();

 private:
  // Identifies a socket, so that another socket at the same path is noticed.
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
    std::optional<Identity> seen;  // none: the socket is gone
    std::optional<Registered> registered;
    bool write_again = false;  // the API lost what a registration had written
    bool announced = true;     // by a registration socket; false: it is a driver's own
  };
  using Sightings = std::map<std::string, Identity>;

  void ScanFolders();
  static std::optional<Identity> FindSocket(const std::string& path);
  static void CollectAnnounced(const std::string& folder, int depth, Sightings& out);
  static void CollectUnannounced(const std::string& folder, Sightings& out);
  base::KeyedWorkers::Outcome Reconcile(const std::string& path);
  // True if the driver of the unannounced socket `path` was announced since the agent started.
  bool IsAnnouncedElsewhere(const std::string& path) const;
  bool IsAnnounced(const std::string& driver) const;
  // Whether the registration by the socket at `path` is still `registered`.
  bool IsStillRegistered(const std::string& path, const Registered& registered) const;
  // Reserves a driver's name for the one socket that registers or unregisters it now, until the
  // returned value is destroyed. Error: kUnavailable while another socket has the name.
  base::StatusOr<std::shared_ptr<void>> ReserveName(const std::string& driver);
  base::Status Register(const std::string& path, const Socket& socket);
  // Reports why a registration failed: to the registrar and by on_refused if the driver is at
  // fault, by on_delayed if the API is. Reports nothing when this process stops.
  void ReportFailure(const std::string& path, const Socket& socket, const base::Status& why) const;
  base::Status ValidatePlugin(const std::string& path, const rpc::PluginInfo& info,
                              PluginVersion& version) const;
  base::Status EnterDriver(const std::string& path, const std::string& driver,
                           const std::string& endpoint);
  void ReportRefusal(const std::string& path, const Socket& socket, const base::Status& why) const;
  base::Status Unregister(const std::string& path, const Registered& registered);
  void SetWriteAgain(const std::string& path, bool again);
  bool IsRegistered(const std::string& driver) const;
  base::Status RemoveAbsentDrivers();
  base::Status RewriteDriver(const std::string& path, const Registered& registered);

  const PluginRegistrationOptions options_;
  CsiNodes& csi_nodes_;
  volume::DriverRegistry& drivers_;
  const std::function<void(const std::string&)> on_registered_;
  // Held during a scan by one of the two watches, because otherwise the result of an older scan
  // could replace that of a newer one. Taken before mutex_.
  base::Mutex scan_mutex_;
  mutable base::Mutex mutex_;
  std::map<std::string, Socket> sockets_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> announced_
      ABSL_GUARDED_BY(mutex_);                           // drivers, by their registration sockets
  std::set<std::string> taken_ ABSL_GUARDED_BY(mutex_);  // names, by ReserveName
  DriverQuestions questions_;
  base::KeyedWorkers workers_;
  std::unique_ptr<platform::FolderWatch> watch_, plugins_watch_;
};

}  // namespace berth::node
