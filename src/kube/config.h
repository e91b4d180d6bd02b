// Where an API server is and who we are to it: a kubeconfig file, or a pod's service account.
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

  std::string certificate_authority;  // PEM; empty: the system's
  std::string client_certificate;     // PEM
  std::string client_key;             // PEM; never logged
  std::string token;                  // never logged
  std::string token_file;             // read again as it is replaced; wins over `token`
  // The identity to act as (Impersonate-User, Impersonate-Group); empty: one's own.
  std::string impersonate_user;
  std::vector<std::string> impersonate_groups;
  std::string proxy_url;  // empty: from the environment
  bool insecure_skip_tls_verify = false;

  std::string ns;  // the context's namespace; "default" if it names none
};

// Reads `path`, and the files that it names relative to its folder. An empty `context` means the
// current one. NOT_FOUND if there is no such file or context, INVALID_ARGUMENT for a malformed one,
// UNIMPLEMENTED for what Berth does not support: exec and auth-provider plugins, passwords,
// impersonation of anything but user and groups.
base::StatusOr<Config> LoadKubeconfig(const std::string& path, std::string_view context = "");

// The file that kubectl would read: `explicit_path`, $KUBECONFIG (its first entry), or
// ~/.kube/config.
std::string DefaultKubeconfigPath(std::string_view explicit_path = "");

// Reads a file of `Config::token_file`, without white space around the token; empty if it cannot be
// read.
std::string ReadTokenFile(const std::string& path);

// Reads /var/run/secrets/kubernetes.io/serviceaccount and KUBERNETES_SERVICE_HOST and _PORT;
// FAILED_PRECONDITION outside a pod. Tests set `folder`.
base::StatusOr<Config> InClusterConfig(
    const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace berth::kube
