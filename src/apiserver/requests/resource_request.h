// A request whose URL has been parsed.
#pragma once

#include <memory>
#include <string>

#include "apiserver/access/authorization.h"
#include "apiserver/kinds/kind_registry.h"
#include "http/exchange.h"

namespace berth::apiserver {

// A request for a resource: /apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUBRESOURCE?query.
struct ResourceRequest {
  KindPtr rules;
  std::string ns;    // empty: cluster-scoped, or all namespaces
  std::string name;  // empty: the collection
  std::string subresource;
  std::string verb;  // as in access rules: get, list, watch, create, update, patch, delete,
                     // deletecollection
  http::Query query;
  Role role;  // the role of the user who sends the request
  std::shared_ptr<http::Exchange> exchange;
  bool may_create = false;  // for server-side apply: whether the user may create a missing object

  const api::KindInfo& info() const { return *rules->info; }
};

// Finds the resource among `kinds` that the request's URL names, and the verb. `role`, `exchange`
// and `may_create` are not set. 404 if the URL names no resource, 405 if the resource does not
// support the method, 400 for a malformed query, percent escape or name.
base::StatusOr<ResourceRequest> RouteRequest(const http::Request& request,
                                             const ServedKinds& kinds);

// The answers for a URL that names nothing which is served, and for a method that is not served
// there.
base::Status UnknownPathError();
base::Status WrongMethodError();

}  // namespace berth::apiserver
