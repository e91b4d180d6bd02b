#include "crust/containers/guest_create.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/log.h"
#include "crust/containers/shared_folder.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Json;
using base::Status;
using base::StatusOr;

// The guest has a memory file system of its own there, which the pod's containers share, as they
// share the one that the runtime mounts for them on the host.
constexpr std::string_view kSharedMemory = "/dev/shm";

// Plugs in those devices of the config that are volumes in block mode. The others are refused by
// TranslateForGuest.
Status PlugDevices(GuestContainers& guest, const GuestCreate& create, GuestPlaces& places) {
  for (const Json& entry : json::Array(create.config, {"linux", "devices"})) {
    if (json::String(entry, {"type"}) != "b") continue;
    const dev_t number = makedev(static_cast<unsigned>(json::Int(entry, {"major"})),
                                 static_cast<unsigned>(json::Int(entry, {"minor"})));
    if (std::ranges::find(create.devices, number) == create.devices.end()) continue;
    const std::string path = json::String(entry, {"path"});
    const Device device = {.source = fmt::format("/dev/block/{}:{}", major(number), minor(number)),
                           .block = true,
                           .number = number};
    ASSIGN_OR_RETURN(GuestDevice plugged, guest.PlugDevice(path, device));
    places.devices.push_back(std::move(plugged));
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<base::UniqueFd> CreateInGuest(GuestContainers& guest, const GuestCreate& create) {
  GuestPlaces places = {.cgroup = "/" + create.container, .sources = create.volumes};
  for (const HostSource& source : FindHostSources(create.config)) {
    if (std::ranges::find(create.volumes, source.mount, &GuestSource::mount) ==
        create.volumes.end()) {
      places.sources.push_back({source.mount, source.path});
    }
  }
  RETURN_IF_ERROR(PlugDevices(guest, create, places));
  // A config that the guest cannot have is refused before any file of the host is shared.
  RETURN_IF_ERROR(TranslateForGuest(create.config, places));
  const Json& mounts = json::Array(create.config, {"mounts"});
  for (GuestSource& source : std::span(places.sources).subspan(create.volumes.size())) {
    if (json::String(mounts[source.mount], {"destination"}) == kSharedMemory) {
      source.path = kSharedMemory;
      continue;
    }
    ASSIGN_OR_RETURN(source.path, guest.Share(create.container,
                                              SharedFolder::MountName(source.mount), source.path));
  }
  const std::filesystem::path root = json::String(create.config, {"root", "path"});
  ASSIGN_OR_RETURN(places.rootfs, guest.Share(create.container, SharedFolder::RootName(),
                                              std::filesystem::path(create.bundle) / root));
  ASSIGN_OR_RETURN(const Json translated, TranslateForGuest(create.config, places));
  return guest.Create(create.container, create.terminal, translated);
}

std::vector<dev_t> ListBlockVolumes(const std::string& kubelet_folder, const std::string& pod) {
  std::vector<dev_t> found;
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::path(kubelet_folder) / "pods" / pod / "volumeDevices";
  for (const auto& plugin : std::filesystem::directory_iterator(folder, error)) {
    for (const auto& link : std::filesystem::directory_iterator(plugin, error)) {
      struct stat st = {};
      if (stat(link.path().c_str(), &st) == 0 && S_ISBLK(st.st_mode)) found.push_back(st.st_rdev);
    }
  }
  return found;
}

}  // namespace berth::crust
