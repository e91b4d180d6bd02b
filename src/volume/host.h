// The node agent's services for volume plugins. Plugins borrow a Host, which must outlive them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/kind_info.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "platform/devices/device_file.h"
#include "platform/mounts/fuse_watch.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "volume/helper_mounts.h"
#include "volume/paths.h"

namespace berth::volume {

// The CSI drivers that are registered on this node: plugin registration writes it, the CSI plugin
// reads it. Thread-safe.
class DriverRegistry {
 public:
  void Register(const std::string& driver, const std::string& socket);
  void Unregister(const std::string& driver);
  // Returns the path of the driver's socket. UNAVAILABLE "CSI driver 'x' is not registered on this
  // node (registered: a, b)".
  base::StatusOr<std::string> FindSocket(const std::string& driver) const;
  std::map<std::string, std::string> ListDrivers() const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, std::string> sockets_ ABSL_GUARDED_BY(mutex_);
};

class Host {
 public:
  virtual ~Host() = default;

  virtual const std::string& node_name() const = 0;
  virtual const Paths& paths() const = 0;
  virtual platform::Mounter& mounter() = 0;
  // The Exec with which `plugin` ("kubernetes.io/csi") runs its utilities.
  virtual platform::Exec& exec(std::string_view plugin) = 0;
  virtual HelperMounts& helper_mounts() = 0;
  virtual base::EventSink& events() = 0;
  virtual const base::Clock& clock() const = 0;
  virtual DriverRegistry& drivers() = 0;

  // The devices to which the paths of published devices lead (platform/devices/device_file.h).
  virtual base::StatusOr<std::vector<platform::DeviceFile>> LookAtDevices(
      const std::vector<std::string>& paths) {
    return platform::LookAtDevices(paths);
  }

  // Reports FUSE mounts beneath paths().root() that no process serves any more.
  virtual base::StatusOr<std::unique_ptr<platform::FuseWatch>> WatchFuse(
      std::function<void(const platform::LostFuse& lost)> on_lost) {
    return platform::WatchFuse(paths().root(), std::move(on_lost));
  }

  // Whether the kernel labels files and processes (SELinux).
  virtual bool selinux() const { return false; }

  // Whether this process is about to end. Then long work ends early, with CANCELLED. Asked on any
  // thread.
  virtual bool ending() const { return false; }

  // Reads an API object: a Secret, a ConfigMap, a CSIDriver, a Node. It comes from a local copy if
  // there is one, else from the API. NOT_FOUND; UNAVAILABLE while the API does not answer.
  virtual base::StatusOr<base::Json> GetObject(const api::KindInfo& kind, std::string_view ns,
                                               std::string_view name) = 0;
  // Requests a token for a pod's service account, as projected volumes and CSI drivers need it.
  // `request` is a TokenRequest. Returns the TokenRequest that the API answers, with its status.
  virtual base::StatusOr<base::Json> CreateToken(std::string_view ns, std::string_view account,
                                                 const base::Json& request) = 0;
};

}  // namespace berth::volume
