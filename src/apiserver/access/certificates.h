// The API server's own certificate authority and what it signs, in one folder (0700, files 0600):
//
//   ca.crt, ca.key          the authority, ten years
//   server.crt, server.key  127.0.0.1, ::1, localhost, the host's name; one year
//   admin.crt, admin.key    CN berth-admin, O system:masters; one year
//   node.crt, node.key      CN system:node:NAME, O system:nodes; one year
//   sa.key                  signs service account tokens
//
// Each is made when missing, and the signed ones again when less than 60 days are left, when their
// key, the authority, a name or an address does not fit any more. Keys are EC P-256.
#pragma once

#include <string>

#include "apiserver/access/openssl_ptr.h"
#include "base/clock.h"
#include "base/status.h"

namespace berth::apiserver {

struct Certificates {
  std::string ca_certificate;  // all PEM
  std::string server_certificate;
  std::string server_key;
  std::string admin_certificate;
  std::string admin_key;
  std::string node_certificate;  // empty without a node
  std::string node_key;
  std::string token_key;
  bool renewed = false;  // something was made
};

struct CertificateOptions {
  std::string folder;
  std::string listen_address;  // among the server certificate's addresses
  std::string node_name = {};  // whose agent gets a certificate; empty: none
};

base::StatusOr<Certificates> EnsureCertificates(const CertificateOptions& options,
                                                base::WallTime now);

// Who a kubeconfig is for.
struct KubeconfigUser {
  std::string name;
  std::string certificate;  // PEM
  std::string key;
};

// Writes a kubeconfig with everything in it, durably and with mode 0600.
base::Status WriteKubeconfig(const std::string& path, const std::string& server_url,
                             const std::string& ca_certificate, const KubeconfigUser& user);

}  // namespace berth::apiserver
