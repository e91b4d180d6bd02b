// The API server's own certificate authority and the certificates and keys that it makes, in one
// folder (0700, files 0600):
//
//   ca.crt, ca.key          the authority, ten years; behind its certificate, the earlier one's
//   server.crt, server.key  127.0.0.1, ::1, localhost, the host's name; one year
//   admin.crt, admin.key    CN berth-admin, O system:masters; one year
//   node.crt, node.key      CN system:node:NAME, O system:nodes; one year
//   sa.key                  signs service account tokens
//
// Each file is made when it is missing or cannot be read. A certificate is also made again when it
// expires in less than 60 days or does not match its key, and a signed one when it no longer
// matches the authority, the names or the addresses, or is revoked. Keys are EC P-256.
//
// The authority is renewed in steps, so that no client is shut out by surprise:
//
//   60 days before its end  a new authority is made, which signs from now on. Both are trusted:
//                           ca.crt and the kubeconfigs have both. The server keeps a certificate of
//                           the earlier one, for clients that know only that
//   7 days before           the server's certificate is of the new authority
//   at its end              ca.crt and the kubeconfigs have only the new one
//
// This is only for an authority that ends. One whose certificate or key is missing or damaged is
// replaced at once, and nothing that it signed counts any more.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/access/openssl_ptr.h"
#include "base/clock.h"
#include "base/status.h"

namespace berth::apiserver {

// All texts are PEM.
struct Certificates {
  std::string ca_certificate;  // may be several
  std::string server_certificate;
  std::string server_key;
  std::string admin_certificate;
  std::string admin_key;
  std::string node_certificate;  // empty without a node
  std::string node_key;
  std::string token_key;
  bool renewed = false;  // at least one certificate was made
};

struct CertificateOptions {
  std::string folder;
  std::string listen_address;        // one of the server certificate's addresses
  std::string node_name = {};        // the node whose agent gets a certificate; empty: none
  std::string revocation_file = {};  // see revocations.h; empty: nothing is revoked
};

// Reads the files of the folder, and makes those that are missing or must be made again. Errors
// come from the file system and from OpenSSL (INTERNAL).
base::StatusOr<Certificates> EnsureCertificates(const CertificateOptions& options,
                                                base::WallTime now);

// The facts about a client's certificate that `berth certificate` shows.
struct ClientCertificate {
  std::string user;    // CN
  std::string sha256;  // see revocations.h
  base::WallTime expires;
};
// Reads a certificate that one of the authorities in `ca_certificate` signed. Both are PEM.
// INVALID_ARGUMENT: another authority signed it. DATA_LOSS: one of them is no certificate.
base::StatusOr<ClientCertificate> DescribeCertificate(std::string_view certificate,
                                                      std::string_view ca_certificate);

// The user that a kubeconfig is for.
struct KubeconfigUser {
  std::string name;
  std::string certificate;  // PEM
  std::string key;
};

// Writes a kubeconfig that contains the certificates and keys themselves, durably and with mode
// 0600.
base::Status WriteKubeconfig(const std::string& path, const std::string& server_url,
                             const std::string& ca_certificate, const KubeconfigUser& user);

}  // namespace berth::apiserver
