// Routes requests to their handlers, on a worker or on the thread of a local client.
//
// The order of the steps is: authenticate, parse the URL, authorise, and only then read the rest of
// the request. The steps are done twice if the body did not come with the head: before the body is
// received, and, because a token may have ended meanwhile, after that. A right depends on the URL
// and the method alone. What an object may contain (admission, e.g. node_restriction.h) is judged
// with the body.
#pragma once

#include <memory>

#include "apiserver/access/access_reviews.h"
#include "apiserver/access/authentication.h"
#include "apiserver/access/token_issuer.h"
#include "apiserver/api_context.h"
#include "apiserver/documents/documents.h"
#include "apiserver/pod_streams.h"
#include "apiserver/resource_reader.h"
#include "apiserver/resource_writer.h"
#include "apiserver/watch_service.h"
#include "http/service.h"

namespace berth::apiserver {

class RequestRouter {
 public:
  // Borrows all arguments.
  RequestRouter(ApiContext& context, Authenticator& authenticator, Authorizer& authorizer,
                const TokenSigner& signer);

  // Queues the request for a worker, which answers it. Called on the event loop.
  void Handle(std::shared_ptr<http::Exchange> exchange);
  // Answers the request; called on a thread that may read the store.
  void Serve(const std::shared_ptr<http::Exchange>& exchange);
  // Queues the head of a request for a worker, which finds its sender, or why it is refused. Called
  // on the event loop.
  void IdentifySender(http::Request head, std::function<void(http::Identity)> done);
  WatchService& watches() { return watches_; }
  Documents& documents() { return documents_; }

 private:
  void ServeUser(const std::shared_ptr<http::Exchange>& exchange);
  // The user as whom a request of `sender` acts, and his role.
  struct Actor {
    std::shared_ptr<const http::User> user;
    Role role;
  };
  base::StatusOr<Actor> FindActor(const http::Request& request,
                                  std::shared_ptr<const http::User> sender);
  // Returns the sender of a request whose body has not arrived, if he has the right to it.
  base::StatusOr<std::shared_ptr<const http::User>> AdmitSender(const http::Request& head);
  base::Status AuthorizeDocument(const http::Request& request, const Actor& actor);
  void AnswerDocument(http::Exchange& exchange);
  void HandleResource(const ResourceRequest& request);
  void HandleSubresource(const ResourceRequest& request);

  ApiContext& context_;
  Authenticator& authenticator_;
  Authorizer& authorizer_;
  const TokenSigner& signer_;
  ResourceReader reader_;
  ResourceWriter writer_;
  WatchService watches_;
  Documents documents_;
  PodStreams pod_streams_;
  TokenIssuer tokens_;
  AccessReviews reviews_;
};

}  // namespace berth::apiserver
