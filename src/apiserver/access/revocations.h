// A file (0600) in the data folder lists the client certificates that were revoked before they
// expire. `berth certificate revoke` writes the file, and the server reads it again whenever it has
// changed, so that a revoked certificate is refused from the next request on, also on a connection
// that exists already. The server makes a new certificate in place of a revoked one of
// its own (certificates.h).
//
//   {"version": 1, "certificates": [{"sha256": of the certificate (DER) in hex, "user", "revoked":
//   time}]}
//
// A lost list must not make revoked certificates valid again, and neither must an older copy of it.
// Therefore a record beside the authority says how many entries the list has had. While the list
// has fewer, every client certificate is refused; root still has the UNIX socket. The record counts
// while the authority that it names is trusted, because its end ends all certificates of it anyway.
//
//   {"version": 1, "authority": SHA-256 of the first certificate in ca.crt (DER) in hex,
//   "certificates": how many}
//
// Files of earlier versions of Berth lack the version, and are read as well. A damaged file, or one
// of a newer version, is never set aside, because a missing file says that nothing is revoked.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/access/openssl_ptr.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "http/message.h"

namespace berth::apiserver {

struct RevokedCertificate {
  std::string sha256;
  std::string user;
  base::WallTime revoked;
};

// The SHA-256 of a certificate (DER) in lower-case hex; empty if OpenSSL cannot encode it.
std::string DigestOf(X509* certificate);

struct RevocationFiles {
  std::string list;              // path; empty: nothing is revoked
  std::string authority_folder;  // has ca.crt, and "revocations.json", the record of the list
};

// Reads the list. A missing file is an empty list if the record names no entries. DATA_LOSS if a
// file is damaged, or if entries are missing; the message says what to do.
base::StatusOr<std::vector<RevokedCertificate>> ReadRevocations(const RevocationFiles& files);

// Adds a certificate to the list, and the number of entries to the record; does nothing if they are
// there already. FAILED_PRECONDITION if another process is changing the files; DATA_LOSS as
// ReadRevocations.
base::Status AddRevocation(const RevocationFiles& files, const RevokedCertificate& certificate);

// Keeps the server's copy of the list up to date. Thread-safe.
class Revocations {
 public:
  explicit Revocations(RevocationFiles files) : files_(std::move(files)) {}

  // Whether the user was identified by a certificate that is revoked. Reads the file if it has
  // changed. If the file cannot be read or lacks entries, every certificate counts as revoked, and
  // the log says so.
  bool IsRevoked(const http::User& user);

  // Reads the file if it has changed, and records how many entries it has. Returns whether it has
  // changed since the last call. Must not be called on the event loop, because it may write.
  bool TakeChange();

 private:
  void RereadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RevocationFiles files_;
  base::Mutex mutex_;
  bool looked_ ABSL_GUARDED_BY(mutex_) = false;  // the file was looked for at least once
  struct stat seen_ ABSL_GUARDED_BY(mutex_) {};
  bool readable_ ABSL_GUARDED_BY(mutex_) = true;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since TakeChange
  std::vector<RevokedCertificate> revoked_ ABSL_GUARDED_BY(mutex_);
};

// User::extra names the certificate by this key and this beginning of its value, as in Kubernetes.
inline constexpr std::string_view kCredentialId = "authentication.kubernetes.io/credential-id";
inline constexpr std::string_view kCertificateId = "X509SHA256=";

}  // namespace berth::apiserver
