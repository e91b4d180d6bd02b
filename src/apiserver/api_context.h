// What every handler of the API works with, and a request once its URL is understood.
#pragma once

#include <memory>
#include <string>

#include "apiserver/access/authorization.h"
#include "apiserver/kinds/kind_registry.h"
#include "apiserver/mutation.h"
#include "base/clock.h"
#include "base/worker_pool.h"
#include "http/exchange.h"
#include "store/store.h"

namespace berth::apiserver {

// Borrowed by all handlers; outlives them.
struct ApiContext {
  store::Store& store;
  const base::Clock& clock;
  base::WorkerPool& workers;
  InFlight& in_flight;
  KindRegistry& kinds;
  std::string node_sockets;
};

// A request for a resource: /apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUBRESOURCE?query.
struct ResourceRequest {
  KindPtr rules;
  std::string ns;    // empty: cluster-scoped, or all namespaces
  std::string name;  // empty: the collection
  std::string subresource;
  std::string verb;  // as in access rules: get, list, watch, create, update, patch, delete,
                     // deletecollection
  http::Query query;
  Role role;  // of the user who asks
  std::shared_ptr<http::Exchange> exchange;
  bool may_create = false;  // of a patch that applies: may the user create what is missing?

  const api::KindInfo& info() const { return *rules->info; }
};

// Answers, indented and compressed as the client asked, with the warnings that have gathered; with
// an object or list, given as JSON text, in the format that the client asked for; or with an error.
void Reply(http::Exchange& exchange, http::Response response);
void ReplyObject(http::Exchange& exchange, int code, std::string json);
void ReplyError(http::Exchange& exchange, const base::Status& status);

// dryRun=All asks for everything but the write; 400 for other values.
base::StatusOr<bool> IsDryRun(const http::Query& query);

// Reads through the store, for admission.
class StoreLookup : public Lookup {
 public:
  explicit StoreLookup(store::Store& store) : store_(store) {}
  base::StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                           std::string_view name) override;
  base::StatusOr<std::vector<Json>> List(const api::KindInfo& kind) override;

 private:
  store::Store& store_;
};

}  // namespace berth::apiserver
