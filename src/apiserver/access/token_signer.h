// Encodes, signs (ES256) and verifies the JSON Web Tokens of service accounts. authentication.h
// interprets their claims.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/access/openssl_ptr.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

// The issuer of all tokens, and also the default audience: the API itself.
inline constexpr std::string_view kTokenIssuer = "https://kubernetes.default.svc.cluster.local";

class TokenSigner {
 public:
  // `key_pem` is an EC P-256 private key. DATA_LOSS if it cannot be parsed.
  static base::StatusOr<TokenSigner> Load(const std::string& key_pem);

  // Returns the token with `claims`. INTERNAL if OpenSSL fails.
  base::StatusOr<std::string> Sign(const base::Json& claims) const;
  // The claims of a token that this signer signed; UNAUTHENTICATED for any other text. Neither time
  // nor audience is checked.
  base::StatusOr<base::Json> Verify(std::string_view token) const;

  // {"keys": [...]}: the public key, for other programs that verify tokens (RFC 7517).
  base::StatusOr<std::string> PublicKeysJson() const;

 private:
  explicit TokenSigner(KeyPtr key);

  KeyPtr key_;
  std::string key_id_;
};

}  // namespace berth::apiserver
