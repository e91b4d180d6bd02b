#include "cli/connect.h"

#include <unistd.h>

#include <cstdlib>

namespace berth::cli {

std::string ApiSocket(const std::string& data_folder) { return data_folder + "/api.sock"; }

std::string FlightFolder(const std::string& data_folder) { return data_folder + "/flight"; }

std::string FlightFile(const std::string& data_folder, std::string_view role) {
  return fmt::format("{}/{}.flight", FlightFolder(data_folder), role);
}

StatusOr<kube::Config> LoadApiConfig(const ApiOptions& options, bool data_folder_given) {
  if (!options.kubeconfig.empty()) return kube::LoadKubeconfig(options.kubeconfig);
  const char* from_environment = std::getenv("KUBECONFIG");
  if (!data_folder_given && from_environment != nullptr && *from_environment != '\0') {
    return kube::LoadKubeconfig(kube::FindKubeconfigPath());
  }
  const std::string socket = ApiSocket(options.data_folder);
  if (access(socket.c_str(), F_OK) != 0) {
    return base::Error(
        base::StatusCode::kNotFound,
        "there is no API at '{}': is 'berth up' running there? Else name a folder with "
        "--data, or a cluster with --kubeconfig",
        socket);
  }
  kube::Config config;
  config.socket = socket;
  config.ns = "default";
  return config;
}

}  // namespace berth::cli
