#include "standalone/data_folder.h"

#include "cli/connect.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"

namespace berth::standalone {

using base::StatusCode;

std::string DatabasePath(const std::string& data_folder) { return data_folder + "/api/objects.db"; }

std::string CertificateFolder(const std::string& data_folder) { return data_folder + "/api/pki"; }

std::string TokenPath(const std::string& data_folder) { return data_folder + "/api/tokens.json"; }

std::string RevocationPath(const std::string& data_folder) {
  return data_folder + "/api/revoked.json";
}

std::string KubeletFolder(const std::string& data_folder) { return data_folder + "/kubelet"; }

std::string PoolFolder(const std::string& data_folder) { return data_folder + "/pool"; }

std::string VolumePluginFolder(const std::string& data_folder) {
  return data_folder + "/volume-plugins";
}

base::StatusOr<base::UniqueFd> LockDataFolder(const std::string& data_folder) {
  ASSIGN_OR_RETURN(
      const platform::FolderPrivacy privacy,
      platform::MakeNamedFolder({.path = data_folder, .names = platform::kDataFolderNames}));
  auto lock = platform::LockFile(data_folder + "/berth.lock");
  if (lock.status().code() == StatusCode::kFailedPrecondition) {
    return base::Error(StatusCode::kFailedPrecondition,
                       "the data folder '{}' is in use by another 'berth up' or 'berth node'",
                       data_folder);
  }
  RETURN_IF_ERROR(lock);
  // The temporary file of an interrupted write may be a part of a kubeconfig, with its key.
  RETURN_IF_ERROR(platform::RemoveTornWrites(data_folder));
  RETURN_IF_ERROR(platform::MakeFolders(KubeletFolder(data_folder), 0755));
  if (privacy == platform::FolderPrivacy::kOpen) {
    // Their files and volumes are open to all users who can reach them.
    for (const char* name : {"kubelet", "pod-logs"}) {
      RETURN_IF_ERROR(platform::MakePrivateFolder(fmt::format("{}/{}", data_folder, name)));
    }
  }
  for (const char* name : {"run", "run/nodes"}) {
    RETURN_IF_ERROR(platform::MakePrivateFolder(fmt::format("{}/{}", data_folder, name)));
  }
  RETURN_IF_ERROR(platform::MakePrivateFolder(cli::FlightFolder(data_folder)));
  return lock;
}

}  // namespace berth::standalone
