// Answers the review requests, which ask who a user is and what the user may do. The answers come
// from the authenticator and authorizer that check every other request.
//
//   authentication.k8s.io  TokenReview, SelfSubjectReview (kubectl auth whoami)
//   authorization.k8s.io   SelfSubjectAccessReview (kubectl auth can-i), SubjectAccessReview,
//                          LocalSubjectAccessReview, SelfSubjectRulesReview (can-i --list)
#pragma once

#include "apiserver/access/authentication.h"
#include "apiserver/access/authorization.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

class AccessReviews {
 public:
  // `context`, `authenticator` and `authorizer` are borrowed and must outlive the object.
  AccessReviews(ApiContext& context, Authenticator& authenticator, Authorizer& authorizer)
      : context_(context), authenticator_(authenticator), authorizer_(authorizer) {}

  // Answers the POST of a review. Call it on a worker, because the authorizer reads the store.
  void AnswerReview(const ResourceRequest& request);

 private:
  // The status of the answer to `review`. 400 or 422 for an incomplete review.
  base::StatusOr<Json> AnswerStatus(const ResourceRequest& request, const Json& review);
  // `only_ns` is the only namespace that may be asked about ("": any namespace). `self`: the review
  // is about the user who sends it.
  base::StatusOr<Json> ReviewAccess(const ResourceRequest& request, const Json& spec,
                                    std::string_view only_ns, bool self);
  Json ReviewToken(const Json& spec);

  ApiContext& context_;
  Authenticator& authenticator_;
  Authorizer& authorizer_;
};

}  // namespace berth::apiserver
