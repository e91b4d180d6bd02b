// Service account tokens (TokenRequest): JSON Web Tokens signed with ES256.
#pragma once

#include <string>

#include "apiserver/api_context.h"
#include "apiserver/openssl_ptr.h"

namespace berth::apiserver {

class TokenIssuer {
 public:
  // `key_pem` is an EC P-256 private key.
  static base::StatusOr<TokenIssuer> Load(const std::string& key_pem);

  // POST serviceaccounts/NAME/token, on a worker.
  void Issue(ApiContext& context, const ResourceRequest& request) const;

  // The signed token of `claims`.
  base::StatusOr<std::string> Sign(const Json& claims) const;

 private:
  explicit TokenIssuer(KeyPtr key);

  KeyPtr key_;
  std::string key_id_;
};

}  // namespace berth::apiserver
