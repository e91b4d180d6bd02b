// A Service for tests: a function answers the requests, and refusals are plain text.
#pragma once

#include <functional>
#include <memory>

#include "http/service.h"

namespace berth::http {

class FakeService : public Service {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  explicit FakeService(Handler handler) : handler_(std::move(handler)) {}

  std::shared_ptr<const User> FindProcessUser(uid_t) const override {
    return std::make_shared<const User>(User{.name = "somebody", .uid = {}});
  }
  std::optional<Refusal> CheckHead(const RequestHead& head, const User*) const override {
    if (head.path != "/forbidden") return std::nullopt;
    return Refusal{.code = 403, .message = "not you"};
  }
  void Identify(Request head, std::function<void(Identity)> done) override {
    identify ? identify(head, std::move(done)) : done({});
  }
  std::optional<Response> RenderRefusal(const Refusal& refusal) const override {
    if (silent) return std::nullopt;
    return Response{.code = refusal.code, .content_type = "text/plain", .body = refusal.message};
  }
  void Handle(std::shared_ptr<Exchange> exchange) override { handler_(std::move(exchange)); }

  // Judges credentials; null: everybody is a stranger.
  std::function<void(const Request&, std::function<void(Identity)>)> identify;
  bool silent = false;  // true: a refusal closes the connection without an answer

 private:
  const Handler handler_;
};

}  // namespace berth::http
