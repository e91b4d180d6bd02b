// A Client whose writes are refused while its guard says no: what one who acts as leader writes
// through, so that nothing that was begun before the lease was lost writes after it.
//
// A refused write is UNAVAILABLE, as with an API that is not there. Reads and watches pass. Only
// borrows; thread-safe.
#pragma once

#include <functional>
#include <utility>

#include "kube/client.h"

namespace berth::kube {

class GuardedClient : public Client {
 public:
  GuardedClient(Client& client, std::function<bool()> may_write)
      : client_(client), may_write_(std::move(may_write)) {}

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override {
    return client_.Get(kind, ns, name);
  }
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    return client_.List(kind, ns, options);
  }
  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override {
    return client_.Watch(kind, ns, options, std::move(stop), on_event);
  }
  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override {
    return client_.GetStream(target, accept, std::move(stop), on_chunk);
  }

  StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                        const Json& object) override {
    RETURN_IF_ERROR(Check());
    return client_.Create(kind, ns, object);
  }
  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override {
    RETURN_IF_ERROR(Check());
    return client_.Update(kind, object, subresource);
  }
  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override {
    RETURN_IF_ERROR(Check());
    return client_.Patch(kind, ns, name, type, patch, subresource);
  }
  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override {
    RETURN_IF_ERROR(Check());
    return client_.Delete(kind, ns, name, options);
  }
  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override {
    RETURN_IF_ERROR(Check());
    return client_.DeleteCollection(kind, ns, options);
  }
  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override {
    RETURN_IF_ERROR(Check());
    return client_.CreateSubresource(kind, ns, name, subresource, body);
  }

 private:
  Status Check() const {
    if (may_write_()) return base::OkStatus();
    return base::Error(base::StatusCode::kUnavailable, "not the leader any more");
  }

  Client& client_;
  const std::function<bool()> may_write_;
};

}  // namespace berth::kube
