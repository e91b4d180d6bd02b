// Which API a command talks to.
#pragma once

#include "cli/arguments.h"
#include "kube/config.h"

namespace berth::cli {

// --kubeconfig, else the UNIX socket below --data if that was given, else $KUBECONFIG, else the
// socket below the default data folder. NOT_FOUND says what was tried.
StatusOr<kube::Config> ConfigFor(const ApiOptions& options, bool data_folder_given);

// The socket of a standalone Berth's API: <data>/api.sock.
std::string ApiSocket(const std::string& data_folder);

// <data>/flight
std::string FlightFolder(const std::string& data_folder);
// A role's flight record: <data>/flight/ROLE.flight, with roles node, controllers and csi-driver.
std::string FlightFile(const std::string& data_folder, std::string_view role);

}  // namespace berth::cli
