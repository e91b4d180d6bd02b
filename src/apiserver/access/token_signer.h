// JSON Web Tokens of service accounts, signed with ES256: what they are as bytes, and whose they
// are. What a token's claims mean is authentication.h's.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/access/openssl_ptr.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

// Who signs, and the audience of a token that names none: the API itself.
inline constexpr std::string_view kTokenIssuer = "https://kubernetes.default.svc.cluster.local";

class TokenSigner {
 public:
  // `key_pem` is an EC P-256 private key.
  static base::StatusOr<TokenSigner> Load(const std::string& key_pem);

  base::StatusOr<std::string> Sign(const base::Json& claims) const;
  // The claims of a token that this signer signed; UNAUTHENTICATED for any other text. Neither
  // time nor audience is looked at.
  base::StatusOr<base::Json> Verify(std::string_view token) const;

  // {"keys": [...]}: the public key, for others who verify tokens (RFC 7517).
  base::StatusOr<std::string> PublicKeys() const;

 private:
  explicit TokenSigner(KeyPtr key);

  KeyPtr key_;
  std::string key_id_;
};

}  // namespace berth::apiserver
