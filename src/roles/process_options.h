// The options that the flags of `berth controller`, of `berth node` and of the Go sidecars set.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/object.h"
#include "roles/roles.h"

namespace berth::roles {

// Leader election, as in client-go.
struct ElectionFlags {
  bool on = false;
  std::string ns;        // empty: the pod's
  std::string identity;  // empty: the host's name
  api::Labels labels;
  std::chrono::milliseconds lease_duration{15000};
  std::chrono::milliseconds renew_deadline{10000};
  std::chrono::milliseconds retry_period{5000};
  bool release = true;
};

// The mode in which node-driver-registrar is an exec probe. Only old kubelets needed its check, but
// the manifests of some vendors still use the mode (EBS, vSphere, Trident).
inline constexpr const char* kRegistrationProbe = "kubelet-registration-probe";

// The health_port of livenessprobe where none is given.
inline constexpr int kLivenessPort = 9808;

struct ProcessOptions {
  int verbosity = 0;     // 1 and above: log each call
  bool version = false;  // print it, and end
  std::vector<std::string> roles;
  std::vector<std::string> csi_addresses;  // sockets of the drivers

  std::string kubeconfig;         // empty: the pod's service account
  std::string master;             // URL in place of the kubeconfig's server
  double queries_per_second = 0;  // of requests to the API; 0: no limit
  int burst = 0;
  ElectionFlags election;
  RoleSettings settings;
  std::string flight_file;  // for 'berth explain'; empty: none

  std::string http_address;     // ":8080": metrics and health
  std::string metrics_address;  // metrics alone, as the Go programs have it
  std::string metrics_path = "/metrics";
  int health_port = 0;  // health alone, at all addresses, if http_address is empty; 0: none

  // PodUtilitiesOptions, of `berth controller` and of the role utilities. Of the former, an empty
  // endpoint means that utilities run where the process runs.
  std::string kubelet_folder;
  std::string runtime_endpoint;

  // For `berth node`.
  std::chrono::milliseconds registration_timeout{1000};  // of each call
  std::string registration_folder = "/registration";
  std::string kubelet_registration_path;
  std::string registration_mode;  // kRegistrationProbe; any other: announce the driver
  std::chrono::milliseconds probe_timeout{3000};
  std::string utility_socket;  // UtilitiesRoleOptions
};

}  // namespace berth::roles
