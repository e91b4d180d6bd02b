// Makes the CSIDriver object of a driver from the driver's own answers, so that no person has to
// write the object (as kubernetes-csi/cluster-driver-registrar did).
//
//   driver ready ── no CSIDriver of its name ──▶ created, marked as made here
//                ── one that was made here, and the driver says otherwise now ──▶ patched
//                ── one that a person made ──▶ left alone
//
// The name is the driver's. The manifest of GetPluginInfo may hold fields of CSIDriver.spec, as
//   csidriver.storage.berth.dev/FIELD: attachRequired, podInfoOnMount, requiresRepublish,
//   storageCapacity, seLinuxMount: "true" or "false"
//   fsGroupPolicy: "None", "File" or "ReadWriteOnceWithFSType"
//   volumeLifecycleModes: "Persistent", "Ephemeral", or both with a ',' between them
// If the manifest does not say attachRequired, it is true if the driver has
// PUBLISH_UNPUBLISH_VOLUME. The other fields take the API's defaults. If the manifest has another
// field or value, no object is made, and the log says why.
//
// The object stays when the driver is gone, because volumes of it may still be mounted.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::driverregistrar {

// The annotation of objects that this controller made. Its value is the version of the driver from
// which the object was made.
inline constexpr std::string_view kMadeFrom = "storage.berth.dev/made-from-driver-version";
inline constexpr std::string_view kManifestPrefix = "csidriver.storage.berth.dev/";

struct Options {
  std::chrono::milliseconds timeout{10000};  // of each RPC
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
};

class DriverRegistrar : public Controller {
 public:
  // `driver` is borrowed and outlives the registrar; it may be started before or after.
  DriverRegistrar(Context context, DriverConnection& driver, Options options = {});
  ~DriverRegistrar() override;

  std::string_view name() const override { return "driver-registrar"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;

  Outcome Sync(const std::string& name);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<api::CsiDriver>& objects_;
  base::KeyedWorkers workers_;
};

using Manifest = std::map<std::string, std::string>;

// The object for `driver`. INVALID_ARGUMENT names the part of the manifest that is no field or
// value.
base::StatusOr<api::CsiDriver> MakeCsiDriver(const DriverInfo& driver, const Manifest& manifest);

}  // namespace berth::controllers::driverregistrar
