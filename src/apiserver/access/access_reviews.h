// Answers the review requests, which ask who a user is and what the user may do. They use the same
// authenticator and authorizer as every other request.
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
  // Borrowed.
  AccessReviews(ApiContext& context, Authenticator& authenticator, Authorizer& authorizer)
      : context_(context), authenticator_(authenticator), authorizer_(authorizer) {}

  // Answers the POST of a review. Runs on a worker.
  void AnswerReview(const ResourceRequest& request);

 private:
  base::StatusOr<Json> StatusOf(const ResourceRequest& request, const Json& review);
  base::StatusOr<Json> Access(const ResourceRequest& request, const Json& spec,
                              std::string_view only_ns, bool self);
  Json Token(const Json& spec);

  ApiContext& context_;
  Authenticator& authenticator_;
  Authorizer& authorizer_;
};

}  // namespace berth::apiserver
