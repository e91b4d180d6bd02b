// TokenRequest: issues service account tokens. A token may be bound to an object, and ends with it.
#pragma once

#include "apiserver/access/token_signer.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

class TokenIssuer {
 public:
  // Borrowed.
  TokenIssuer(ApiContext& context, const TokenSigner& signer)
      : context_(context), signer_(signer) {}

  // Answers POST serviceaccounts/NAME/token. Runs on a worker.
  void Issue(const ResourceRequest& request) const;

 private:
  base::StatusOr<Json> SignToken(const ResourceRequest& request, Json body) const;
  base::Status Bind(const ResourceRequest& request, const Json& reference, Json& claims) const;
  base::Status BindPod(const ResourceRequest& request, const Json& reference,
                       const base::StatusOr<Json>& pod, Json& claims) const;

  ApiContext& context_;
  const TokenSigner& signer_;
};

}  // namespace berth::apiserver
