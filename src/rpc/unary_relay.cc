#include "rpc/unary_relay.h"

#include <grpcpp/generic/generic_stub.h>

#include <atomic>

#include "base/workers/worker_pool.h"
#include "rpc/unix_channel.h"
#include "rpc/unix_server.h"

namespace berth::rpc {
namespace {

using base::StatusOr;

// A call is sent at once, unless the other process has just come back (UnixChannel::PrepareCall).
constexpr size_t kSenders = 4;

class Relay final : public UnaryRelay, public grpc::CallbackGenericService {
 public:
  Relay(Options options, std::unique_ptr<UnixChannel> channel)
      : max_passed_on_(options.max_passed_on),
        channel_(std::move(channel)),
        stub_(channel_->grpc()),
        senders_({.name = "relay", .max_threads = kSenders, .max_queued = options.max_passed_on}) {
    for (auto& [method, answer] : options.answers) {
      methods_[method] = {.answer = std::move(answer),
                          .workers = std::make_unique<base::WorkerPool>(base::WorkerPool::Options{
                              .name = method.substr(method.rfind('/') + 1),
                              .max_threads = options.threads,
                              .max_queued = options.max_queued})};
    }
  }

  base::Status Serve(const std::string& socket) {
    ASSIGN_OR_RETURN(server_, UnixServer::Start(socket, {}, this));
    return base::OkStatus();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(*this, *context);
  }

 private:
  struct Method {
    Answer answer;
    std::unique_ptr<base::WorkerPool> workers;
  };

  // One call. It owns itself until OnDone.
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(Relay& relay, grpc::GenericCallbackServerContext& context)
        : relay_(relay), context_(context) {
      StartRead(&request_);
    }

    void OnReadDone(bool ok) override {
      if (!ok) {
        return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "there is no request"));
      }
      const auto method = relay_.methods_.find(context_.method());
      const bool accepted =
          method != relay_.methods_.end()
              ? method->second.workers->Post([this, &answer = method->second.answer] {
                  if (context_.IsCancelled()) return Reply(grpc::Status::CANCELLED);
                  Reply(answer(request_, response_));
                })
              : CountPassedOn() && relay_.senders_.Post([this] { PassOn(); });
      // UNAVAILABLE, because nothing was done and the caller should try again.
      if (!accepted) {
        Reply(grpc::Status(grpc::StatusCode::UNAVAILABLE, "too many calls wait: try again"));
      }
    }
    void OnCancel() override { client_.TryCancel(); }
    void OnDone() override { delete this; }

   private:
    // False: too many calls are passed on.
    bool CountPassedOn() {
      counted_ = true;
      return ++relay_.passed_on_ <= relay_.max_passed_on_;
    }

    void PassOn() {
      if (context_.IsCancelled()) return Reply(grpc::Status::CANCELLED);
      const auto left = std::chrono::duration_cast<Timeout>(context_.deadline() -
                                                            std::chrono::system_clock::now());
      if (const base::Status ready = relay_.channel_->PrepareCall(left); !ready.ok()) {
        return Reply(ToGrpc(ready));
      }
      client_.set_deadline(context_.deadline());
      for (const auto& [name, value] : context_.client_metadata()) {
        const std::string key(name.data(), name.size());
        if (key.starts_with(':') || key.starts_with("grpc-") || key == "user-agent") continue;
        client_.AddMetadata(key, std::string(value.data(), value.size()));
      }
      relay_.stub_.UnaryCall(&client_, context_.method(), grpc::StubOptions(), &request_,
                             &response_, [this](const grpc::Status& status) { Reply(status); });
    }

    void Reply(const grpc::Status& status) {
      // Before the caller sees the end of the call, because it may make the next one at once.
      if (counted_) --relay_.passed_on_;
      if (!status.ok()) return Finish(status);
      StartWriteAndFinish(&response_, grpc::WriteOptions(), status);
    }

    Relay& relay_;
    grpc::GenericCallbackServerContext& context_;
    grpc::ClientContext client_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
    bool counted_ = false;  // in passed_on_
  };

  const size_t max_passed_on_;
  std::atomic<size_t> passed_on_ = 0;
  const std::unique_ptr<UnixChannel> channel_;
  grpc::GenericStub stub_;
  base::WorkerPool senders_;
  std::map<std::string, Method> methods_;  // by full name; set by the constructor
  std::unique_ptr<UnixServer> server_;     // last: it is stopped first, and no call comes any more
};

}  // namespace

StatusOr<std::unique_ptr<UnaryRelay>> UnaryRelay::Start(Options options) {
  ASSIGN_OR_RETURN(auto channel, UnixChannel::New(options.target));
  const std::string socket = options.socket;
  auto relay = std::make_unique<Relay>(std::move(options), std::move(channel));
  RETURN_IF_ERROR(relay->Serve(socket));
  return relay;
}

}  // namespace berth::rpc
