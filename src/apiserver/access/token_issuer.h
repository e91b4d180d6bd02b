// TokenRequest: issues service account tokens. A token may be bound to an object, and ends with it.
#pragma once

#include "apiserver/access/token_signer.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

class TokenIssuer {
 public:
  // Borrows all arguments.
  TokenIssuer(ApiContext& context, const TokenSigner& signer)
      : context_(context), signer_(signer) {}

  // Answers POST serviceaccounts/NAME/token. Runs on a worker.
  void IssueToken(const ResourceRequest& request) const;

 private:
  // The answer to the TokenRequest `body`, with the token in its status.
  base::StatusOr<Json> SignToken(const ResourceRequest& request, Json body) const;
  // Add the object that spec.boundObjectRef (`reference`) names to the token's `claims`. BindToken
  // also checks whether a node may request the token. AudiencesOf has checked the spec.
  base::Status BindToken(const ResourceRequest& request, const Json& spec, Json& claims) const;
  base::Status BindPod(const ResourceRequest& request, const Json& reference,
                       const base::StatusOr<Json>& pod, Json& claims) const;

  ApiContext& context_;
  const TokenSigner& signer_;
};

}  // namespace berth::apiserver
