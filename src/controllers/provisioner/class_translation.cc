#include "controllers/provisioner/class_translation.h"

#include "api/migration/translation.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using base::StatusOr;

namespace {

// "" if the driver replaces no plugin.
std::string ReplacedPlugin(const DriverInfo& driver) {
  return std::string(api::migration::PluginOf(driver.name));
}

bool IsPluginClass(const api::StorageClass& storage_class, const DriverInfo& driver) {
  const std::string plugin = ReplacedPlugin(driver);
  return !plugin.empty() && storage_class.provisioner() == plugin;
}

}  // namespace

bool IsServedBy(const api::StorageClass& storage_class, const DriverInfo& driver) {
  return storage_class.provisioner() == driver.name || IsPluginClass(storage_class, driver);
}

bool AsksDriver(const api::PersistentVolumeClaim& claim, const DriverInfo& driver) {
  const auto names = [&](const std::string& provisioner) {
    return claim.annotation(kStorageProvisioner) == provisioner ||
           claim.annotation(kBetaStorageProvisioner) == provisioner;
  };
  if (names(driver.name)) return true;
  const std::string plugin = ReplacedPlugin(driver);
  return !plugin.empty() && claim.annotation(kMigratedTo) == driver.name && names(plugin);
}

StatusOr<api::StorageClass> TranslateForDriver(const api::StorageClass& storage_class,
                                               const DriverInfo& driver) {
  if (!IsPluginClass(storage_class, driver)) return storage_class;
  StatusOr<api::StorageClass> translated =
      api::migration::TranslateClass(storage_class.provisioner(), storage_class);
  RETURN_IF_ERROR_WITH(translated, "failed to translate storage class");
  return translated;
}

}  // namespace berth::controllers::provisioner
