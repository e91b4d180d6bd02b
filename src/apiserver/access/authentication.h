// Authentication: finds the user who sends a request.
//
// The transport identifies some users: on TLS by a client certificate of the server's own authority
// (its CN is the user, its O are the groups), on the UNIX socket as root. Otherwise a bearer token
// identifies the user. It is a service account's token (token_signer.h) or a person's
// (static_tokens.h). The account and the bound object of a service account's token are looked up
// each time, because the token ends with them. A client certificate may be revoked, which is looked
// up each time, too (revocations.h). There is no anonymous user: a request without a user
// gets 401, except for health and version. An administrator may act as another user (the headers
// Impersonate-User, -Group, -Uid and -Extra-*).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/access/authorization.h"
#include "apiserver/access/revocations.h"
#include "apiserver/access/static_tokens.h"
#include "apiserver/access/token_signer.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "http/message.h"
#include "store/store.h"

namespace berth::apiserver {

// Whether a GET of `path` needs no user. Monitoring reads these paths without credentials.
bool IsPublicPath(std::string_view path);
// The token of "Authorization: Bearer TOKEN"; empty if there is none.
std::string_view BearerToken(const http::Request& request);
// The 401 for a request without a valid user.
base::Status UnauthorizedError();

class Authenticator {
 public:
  // Borrows all arguments. The files of `static_tokens` and `revocations` may be missing.
  Authenticator(store::Store& store, const base::Clock& clock, const TokenSigner& signer,
                StaticTokens& static_tokens, Revocations& revocations)
      : store_(store),
        clock_(clock),
        signer_(signer),
        static_tokens_(static_tokens),
        revocations_(revocations) {}

  // The user of a request, with the group system:authenticated; 401 if there is none. Must not be
  // called on the event loop for a request with a token, because it then reads the store.
  base::StatusOr<std::shared_ptr<const http::User>> Identify(const http::Request& request);

  struct TokenOwner {
    http::User user;
    std::vector<std::string> audiences;  // the requested ones that the token is for
  };
  // The owner of a token that is valid for one of `audiences` (empty: the API itself).
  // UNAUTHENTICATED with the reason if the token is not valid; other errors come from the store.
  base::StatusOr<TokenOwner> OwnerOf(std::string_view token,
                                     const std::vector<std::string>& audiences);

 private:
  base::StatusOr<TokenOwner> OwnerOfClaims(const base::Json& claims,
                                           const std::vector<std::string>& audiences);
  // Checks the object that a token's `reference` (name and uid) names. UNAUTHENTICATED if it is
  // gone or another object, or if its deletionTimestamp is more than a minute ago.
  base::Status CheckAlive(const api::KindInfo& kind, std::string_view ns,
                          const base::Json& reference) const;

  // Logs that a token was refused, at most kMaxRefusals times in kRefusalWindow, because everybody
  // can cause such lines and they must not fill the disk.
  void LogRefusal(const http::Request& request, const base::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr int kMaxRefusals = 20;
  static constexpr std::chrono::seconds kRefusalWindow{10};

  store::Store& store_;
  const base::Clock& clock_;
  const TokenSigner& signer_;
  StaticTokens& static_tokens_;
  Revocations& revocations_;
  base::Mutex mutex_;
  base::WallTime window_ ABSL_GUARDED_BY(mutex_);  // its begin
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;       // in the window
};

// Finds the user that the request asks to impersonate; null if it asks for none. 403 if the sender
// is not an administrator, 400 if the headers name no user.
base::StatusOr<std::shared_ptr<const http::User>> FindImpersonatedUser(const http::Request& request,
                                                                       const http::User& user,
                                                                       const Role& role);

}  // namespace berth::apiserver
