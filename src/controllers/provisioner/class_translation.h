// Classes of the in-tree plugin that a driver replaces (api/migration): the driver's provisioner
// serves their claims, and the PersistentVolume that it makes has the plugin's source, so that the
// plugin could take over again. Pure.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::provisioner {

// Whether the class's provisioner is the driver, or the in-tree plugin that it replaces.
bool IsServedBy(const api::StorageClass& storage_class, const DriverInfo& driver);

// Whether the claim is for the driver: its annotation storage-provisioner names it, or names the
// plugin that it replaces while the annotation migrated-to names the driver.
bool AsksDriver(const api::PersistentVolumeClaim& claim, const DriverInfo& driver);

// The class as the driver understands it. INVALID_ARGUMENT if that of a plugin cannot be
// translated.
base::StatusOr<api::StorageClass> TranslateForDriver(const api::StorageClass& storage_class,
                                                     const DriverInfo& driver);

}  // namespace berth::controllers::provisioner
