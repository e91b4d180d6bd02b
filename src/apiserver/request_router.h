// Routes requests to their handlers, on a worker.
//
// The order of the steps is: authenticate, parse the URL, authorise, and only then read the rest of
// the request. A sender with a token is authenticated twice if the body did not come with the head:
// before the body is received, and, because the token may have ended meanwhile, after that.
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
  // Queues the head of a request with a token for a worker, which finds the token's owner, or a
  // refusal. Called on the event loop.
  void IdentifySender(http::Request head, std::function<void(http::Identity)> done);
  WatchService& watches() { return watches_; }
  Documents& documents() { return documents_; }

 private:
  void ServeUser(const std::shared_ptr<http::Exchange>& exchange);
  base::StatusOr<Role> Identify(http::Exchange& exchange);
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

// Finds the resource among `kinds` that the request's URL names, and the verb. `role`, `exchange`
// and `may_create` are not set. 404 if the URL names no resource, 405 if the resource does not
// support the method, 400 for a malformed query, percent escape or name.
base::StatusOr<ResourceRequest> RouteRequest(const http::Request& request,
                                             const ServedKinds& kinds);

}  // namespace berth::apiserver
