#include "volume/found_volumes.h"

#include "platform/files/durable_file.h"

namespace berth::volume {

StatusOr<std::vector<std::string>> ListNames(const std::string& folder) {
  auto names = platform::ListFolder(folder);
  if (names.status().code() == base::StatusCode::kNotFound) return std::vector<std::string>();
  return names;
}

StatusOr<std::vector<PodVolumeRecord>> FindPodFolders(const Paths& paths, std::string_view plugin) {
  std::vector<PodVolumeRecord> found;
  ASSIGN_OR_RETURN(const auto uids, ListNames(paths.Pods()));
  for (const std::string& uid : uids) {
    ASSIGN_OR_RETURN(const auto names, ListNames(paths.PodVolumes(api::PodUid(uid), plugin)));
    for (const std::string& name : names) {
      found.push_back({.plugin = std::string(plugin),
                       .device_name = "",
                       .pod_uid = uid,
                       .folder_name = name,
                       .state = Json::object()});
    }
  }
  return found;
}

}  // namespace berth::volume
