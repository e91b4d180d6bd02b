// The address of an API server and the credentials for it, from a kubeconfig file or from a pod's
// service account.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace berth::kube {

struct Config {
  // "https://host:port[/prefix]" or "http://..."; empty with `socket`.
  std::string server;
  // Path of a UNIX socket on which the server speaks plain HTTP: "unix:///run/berth/api.sock" in a
  // kubeconfig's `server`, an extension of Berth.
  std::string socket;

  std::string certificate_authority;  // PEM; empty: the certificates of the system
  std::string client_certificate;     // PEM
  std::string client_key;             // PEM; never logged
  std::string token;                  // never logged
  std::string token_file;             // read again each minute; used in place of `token`
  // The identity to act as (Impersonate-User, Impersonate-Group); empty: that of the credentials.
  std::string impersonate_user;
  std::vector<std::string> impersonate_groups;
  std::string proxy_url;  // empty: from the environment
  bool insecure_skip_tls_verify = false;

  std::string ns;  // the context's namespace; "default" if it names none
};

// Reads `path`, and the files that it names relative to its folder. An empty `context` means the
// current one. NOT_FOUND: a file, context, cluster or user does not exist. PERMISSION_DENIED,
// UNAVAILABLE: a file cannot be read. INVALID_ARGUMENT: a file is malformed. UNIMPLEMENTED: Berth
// does not support a field: exec and auth-provider plugins, passwords, tls-server-name, or
// impersonation of anything but user and groups.
base::StatusOr<Config> LoadKubeconfig(const std::string& path, std::string_view context = "");

// Returns the path of the file that kubectl would read: `explicit_path` if it is not empty, else
// the first entry of $KUBECONFIG, else ~/.kube/config. The file need not exist.
std::string FindKubeconfigPath(std::string_view explicit_path = "");

// Reads the token in the file `path` (Config::token_file), without white space around it. Empty if
// the file cannot be read.
std::string ReadTokenFile(const std::string& path);

// Reads a pod's service account from `folder`, and the server's address from the variables
// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. FAILED_PRECONDITION: a variable is not set,
// because this is not a pod. Other errors: the token or ca.crt cannot be read. Only tests set
// `folder`.
base::StatusOr<Config> LoadInClusterConfig(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

// The configuration of a program that runs in a pod or by itself: the kubeconfig at `path` or, if
// that is empty, the pod's service account or else the file that kubectl would read. Errors are
// those of LoadKubeconfig.
base::StatusOr<Config> LoadConfig(const std::string& path);

}  // namespace berth::kube
