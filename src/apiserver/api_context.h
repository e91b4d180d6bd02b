// The objects that every handler of the API uses.
#pragma once

#include <memory>
#include <string>

#include "apiserver/kinds/kind_registry.h"
#include "apiserver/mutation.h"
#include "apiserver/request_workers.h"
#include "apiserver/requests/resource_request.h"
#include "base/clock.h"
#include "http/exchange.h"
#include "store/store.h"

namespace berth::apiserver {

// All handlers borrow it; it must outlive them.
struct ApiContext {
  store::Store& store;
  const base::Clock& clock;
  RequestWorkers& workers;
  InFlight& in_flight;
  KindRegistry& kinds;
  std::string node_sockets;  // as in ServerOptions (server.h)
};

// Each answers the request. The answer is indented and compressed as the client asked, and carries
// the warnings that were added to `exchange`. ReplyObject sends an object or list, given as JSON
// text, in the format that the client asked for. ReplyError sends `status` as a Kubernetes Status,
// in JSON if the client accepts no format that the server has.
void Reply(http::Exchange& exchange, http::Response response);
void ReplyObject(http::Exchange& exchange, int code, std::string json);
void ReplyError(http::Exchange& exchange, const base::Status& status);

// Whether the query has dryRun=All, which asks for everything except the write. 422 for other
// values.
base::StatusOr<bool> IsDryRun(const http::Query& query);

// The Lookup of admission, which reads from the store. Errors are the store's, and DATA_LOSS for a
// damaged object.
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
