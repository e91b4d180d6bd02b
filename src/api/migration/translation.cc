#include "api/migration/translation.h"

#include <algorithm>
#include <array>

#include "api/migration/plugin.h"

namespace berth::api::migration {

using base::Error;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::array<const Plugin*, 7> kPlugins = {&kAwsEbs, &kAzureDisk, &kAzureFile, &kCinder,
                                                   &kGcePd,  &kPortworx,  &kVsphere};

template <typename Predicate>
const Plugin* FindPlugin(const Predicate& fits) {
  const auto it = std::ranges::find_if(kPlugins, [&](const Plugin* one) { return fits(*one); });
  return it == kPlugins.end() ? nullptr : *it;
}

const Plugin* FindPluginByName(std::string_view name) {
  return FindPlugin([&](const Plugin& plugin) { return plugin.name == name; });
}

const Plugin* FindPluginByDriver(std::string_view driver) {
  return FindPlugin([&](const Plugin& plugin) { return plugin.driver == driver; });
}

// The plugin whose source `object` has; nullptr if it has none.
const Plugin* FindPluginBySource(const Json& object) {
  return FindPlugin([&](const Plugin& plugin) {
    const Json* source = base::json::Find(object, {plugin.source});
    return source != nullptr && source->is_object();
  });
}

}  // namespace

std::string_view DriverOf(std::string_view plugin) {
  const Plugin* found = FindPluginByName(plugin);
  return found == nullptr ? "" : found->driver;
}

std::string_view PluginOf(std::string_view driver) {
  const Plugin* found = FindPluginByDriver(driver);
  return found == nullptr ? "" : found->name;
}

bool IsMigratable(const PersistentVolume& volume) {
  return FindPluginBySource(base::json::Map(volume.json(), {"spec"})) != nullptr;
}

StatusOr<StorageClass> TranslateClass(std::string_view plugin, const StorageClass& storage_class) {
  const Plugin* found = FindPluginByName(plugin);
  if (found == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find in-tree storage class parameter translation logic for {:?}",
                 plugin);
  }
  return found->translate_class(storage_class);
}

StatusOr<PersistentVolume> TranslateToCsi(const PersistentVolume& volume) {
  const Plugin* found = FindPluginBySource(base::json::Map(volume.json(), {"spec"}));
  if (found == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find in-tree plugin translation logic for {:?}", volume.name());
  }
  return found->to_csi(volume);
}

StatusOr<PersistentVolume> AsCsiVolume(const PersistentVolume& volume) {
  if (!IsMigratable(volume)) return volume;
  return TranslateToCsi(volume);
}

StatusOr<PersistentVolume> TranslateToInTree(const PersistentVolume& volume) {
  if (!volume.has_csi()) {
    return Error(StatusCode::kInvalidArgument, "CSI persistent volume was nil");
  }
  const Plugin* found = FindPluginByDriver(volume.csi().driver());
  if (found == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find in-tree plugin translation logic for {}", volume.csi().driver());
  }
  return found->to_in_tree(volume);
}

StatusOr<PersistentVolume> TranslateInline(const Json& volume, std::string_view ns) {
  const Plugin* found = FindPluginBySource(volume);
  if (found == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find in-tree plugin translation logic for {:?}",
                 base::json::String(volume, {"name"}));
  }
  return found->translate_inline(volume, ns);
}

StatusOr<std::string> RepairHandle(std::string_view driver, const VolumeHandle& handle,
                                   std::string_view node_id) {
  const Plugin* found = FindPluginByDriver(driver);
  if (found == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "could not find In-Tree driver name for CSI plugin {}", driver);
  }
  if (found->repair_handle == nullptr) return handle.text();
  return found->repair_handle(handle.text(), std::string(node_id));
}

}  // namespace berth::api::migration
