// Who sends a request.
//
// The transport knows some: on TLS the client certificate of the server's own authority (CN the
// user, O the groups), on the UNIX socket root. Without one a bearer token says it: a service
// account's (token_signer.h), whose account and bound object are looked up each time, so that it
// ends with them, or a person's (static_tokens.h). There is no anonymous user: whoever is neither
// is answered 401, but for health and version. An administrator may act as another user
// (Impersonate-User and the like).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/access/authorization.h"
#include "apiserver/access/static_tokens.h"
#include "apiserver/access/token_signer.h"
#include "base/clock.h"
#include "http/message.h"
#include "store/store.h"

namespace berth::apiserver {

// GET of these needs no identity, so that what watches over the server can look.
bool IsPublicPath(std::string_view path);
// The token of "Authorization: Bearer TOKEN"; empty if there is none.
std::string_view BearerToken(const http::Request& request);
base::Status UnauthorizedError();

class Authenticator {
 public:
  // Borrowed. `static_tokens` may name a file that is not there.
  Authenticator(store::Store& store, const base::Clock& clock, const TokenSigner& signer,
                StaticTokens& static_tokens)
      : store_(store), clock_(clock), signer_(signer), static_tokens_(static_tokens) {}

  // 401 for nobody. Reads the store where there is a token: not for the event loop then.
  base::StatusOr<std::shared_ptr<const http::User>> Identify(const http::Request& request);

  struct TokenOwner {
    http::User user;
    std::vector<std::string> audiences;  // those of the asked that the token is for
  };
  // Whose the token is, for one of `audiences` (empty: the API itself). UNAUTHENTICATED says why
  // not.
  base::StatusOr<TokenOwner> OwnerOf(std::string_view token,
                                     const std::vector<std::string>& audiences);

 private:
  base::StatusOr<TokenOwner> OwnerOfClaims(const base::Json& claims,
                                           const std::vector<std::string>& audiences);
  base::Status CheckAlive(const api::KindInfo& kind, std::string_view ns,
                          const base::Json& reference) const;

  store::Store& store_;
  const base::Clock& clock_;
  const TokenSigner& signer_;
  StaticTokens& static_tokens_;
};

// The user that an administrator's request asks to act as; null if it asks for none. 403 for
// others than administrators, 400 for headers that name no user.
base::StatusOr<std::shared_ptr<const http::User>> ImpersonatedUser(const http::Request& request,
                                                                   const http::User& user,
                                                                   const Role& role);

}  // namespace berth::apiserver
