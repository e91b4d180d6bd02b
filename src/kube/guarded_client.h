// A Client that asks a gate before each write. A leader writes through it, so that work that it
// began before it lost the lease writes nothing afterwards. It is also used to delay some requests,
// so that others get their turn.
//
// With a `send_time` the gate is asked again before each sending: a write that waited for its turn,
// or that the server put off, is not sent once the gate refuses. The answer to a write that was
// sent is awaited no longer than `send_time`, so that no write is under way when the next leader
// begins.
//
// A write that the gate refuses fails with the gate's status. Reads and watches are not checked.
// The client behind it is borrowed and must outlive it. Thread-safe if the gate is.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "kube/client.h"
#include "kube/send_guard.h"

namespace berth::kube {

class GuardedClient : public Client {
 public:
  using Gate = std::function<Status()>;

  GuardedClient(Client& client, Gate gate,
                std::chrono::milliseconds send_time = std::chrono::milliseconds(0))
      : client_(client), gate_(std::move(gate)), send_time_(send_time) {}

  // Makes a leader's gate: it refuses with UNAVAILABLE, as if there were no API, while `leading`
  // returns false.
  static Gate MakeLeaderGate(std::function<bool()> leading) {
    return [leading = std::move(leading)]() -> Status {
      if (leading()) return base::OkStatus();
      return base::Error(base::StatusCode::kUnavailable, "not the leader any more");
    };
  }

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override {
    return client_.Get(kind, ns, name);
  }
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    return client_.List(kind, ns, options);
  }
  int64_t MostInPage(const api::KindInfo& kind) const override { return client_.MostInPage(kind); }
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
    return CallGuarded([&] { return client_.Create(kind, ns, object); });
  }
  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override {
    return CallGuarded([&] { return client_.Update(kind, object, subresource); });
  }
  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override {
    return CallGuarded([&] { return client_.Patch(kind, ns, name, type, patch, subresource); });
  }
  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override {
    return CallGuarded([&] { return client_.Delete(kind, ns, name, options); });
  }
  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override {
    return CallGuarded([&] { return client_.DeleteCollection(kind, ns, options); });
  }
  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override {
    return CallGuarded(
        [&] { return client_.CreateSubresource(kind, ns, name, subresource, body); });
  }

 private:
  template <typename Call>
  auto CallGuarded(const Call& call) -> decltype(call()) {
    RETURN_IF_ERROR(gate_());
    const SendGuard guard(gate_, send_time_);
    return call();
  }

  Client& client_;
  const Gate gate_;
  const std::chrono::milliseconds send_time_;
};

}  // namespace berth::kube
