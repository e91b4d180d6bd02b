// Routes requests to their handlers, on a worker.
//
// The order of the steps is: authenticate, parse the URL, authorise, and only then read the rest of
// the request.
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

namespace berth::apiserver {

class RequestRouter {
 public:
  // Borrowed.
  RequestRouter(ApiContext& context, Authenticator& authenticator, Authorizer& authorizer,
                const TokenSigner& signer);

  // Called on the event loop.
  void Handle(std::shared_ptr<http::Exchange> exchange);
  WatchService& watches() { return watches_; }
  Documents& documents() { return documents_; }

 private:
  void Serve(const std::shared_ptr<http::Exchange>& exchange);
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

// The resource among `kinds` that a path names; 404 if it names none, 405 if the resource does not
// support the method. `verb` of the result is set.
base::StatusOr<ResourceRequest> Route(const http::Request& request, const ServedKinds& kinds);

}  // namespace berth::apiserver
