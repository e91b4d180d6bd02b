// The client certificates that were revoked before they expire. A file (0600) in the data folder
// lists them. `berth certificate revoke` writes the file, and the server reads it again whenever it
// has changed, so that a revoked certificate is refused from the next request on, also on a
// connection that exists already. The server makes a new certificate in place of a revoked one of
// its own (certificates.h).
//
//   {"certificates": [{"sha256": of the certificate (DER) in hex, "user", "revoked": time}]}
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

// Reads the file at `path`. A missing file is an empty list; DATA_LOSS for a damaged one.
base::StatusOr<std::vector<RevokedCertificate>> ReadRevocations(const std::string& path);

// Adds a certificate to the file; OK if it is there already. FAILED_PRECONDITION if another process
// is changing the file, DATA_LOSS for a damaged file.
base::Status AddRevocation(const std::string& path, const RevokedCertificate& certificate);

// The server's copy of the file. Thread-safe.
class Revocations {
 public:
  // `path` may be empty: nothing is revoked.
  explicit Revocations(std::string path) : path_(std::move(path)) {}

  // Whether the user was identified by a certificate that is revoked. Reads the file if it has
  // changed. If the file cannot be read, every certificate counts as revoked, and the log says so.
  bool IsRevoked(const http::User& user);

  // Reads the file if it has changed. Returns whether it has, since the last call.
  bool TakeChange();

 private:
  void RereadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  base::Mutex mutex_;
  struct stat seen_ ABSL_GUARDED_BY(mutex_) {};
  bool readable_ ABSL_GUARDED_BY(mutex_) = true;
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since TakeChange
  std::vector<RevokedCertificate> revoked_ ABSL_GUARDED_BY(mutex_);
};

// The key and the value by which User::extra names the certificate, as Kubernetes does.
inline constexpr std::string_view kCredentialId = "authentication.kubernetes.io/credential-id";
inline constexpr std::string_view kCertificateId = "X509SHA256=";

}  // namespace berth::apiserver
