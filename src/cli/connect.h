// Finds the API that a command talks to.
#pragma once

#include "cli/arguments.h"
#include "kube/config.h"

namespace berth::cli {

// Uses --kubeconfig; else, if --data was given, the UNIX socket in that folder; else $KUBECONFIG;
// else the socket in the default data folder. NOT_FOUND: the socket does not exist; the message has
// its path. Other errors come from reading the kubeconfig.
StatusOr<kube::Config> LoadApiConfig(const ApiOptions& options, bool data_folder_given);

// The socket of a standalone Berth's API: <data>/api.sock.
std::string ApiSocket(const std::string& data_folder);

// <data>/flight
std::string FlightFolder(const std::string& data_folder);
// A role's flight record: <data>/flight/ROLE.flight, with roles node, controllers and csi-driver.
std::string FlightFile(const std::string& data_folder, std::string_view role);

}  // namespace berth::cli
