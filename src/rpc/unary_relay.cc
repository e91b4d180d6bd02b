#include "rpc/unary_relay.h"

#include <grpcpp/generic/generic_stub.h>

#include "base/workers/worker_pool.h"
#include "rpc/unix_channel.h"
#include "rpc/unix_server.h"

namespace berth::rpc {
namespace {

using base::StatusOr;

class Relay final : public UnaryRelay, public grpc::CallbackGenericService {
 public:
  Relay(Options options, std::unique_ptr<UnixChannel> channel)
      : answers_(std::move(options.answers)),
        channel_(std::move(channel)),
        stub_(channel_->grpc()),
        workers_(
            {.name = "relay", .max_threads = options.threads, .max_queued = options.max_queued}) {}

  base::Status Serve(const std::string& socket) {
    ASSIGN_OR_RETURN(server_, UnixServer::Start(socket, {}, this));
    return base::OkStatus();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(*this, *context);
  }

 private:
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
      // UNAVAILABLE, because nothing was done and the caller should try again.
      if (!relay_.workers_.Post([this] { Run(); })) {
        Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "too many calls wait: try again"));
      }
    }
    void OnCancel() override { client_.TryCancel(); }
    void OnDone() override { delete this; }

   private:
    void Run() {
      if (context_.IsCancelled()) return Finish(grpc::Status::CANCELLED);
      const auto answer = relay_.answers_.find(context_.method());
      if (answer != relay_.answers_.end()) return Reply(answer->second(request_, response_));
      PassOn();
    }

    void PassOn() {
      const auto left = std::chrono::duration_cast<Timeout>(context_.deadline() -
                                                            std::chrono::system_clock::now());
      if (const base::Status ready = relay_.channel_->PrepareCall(left); !ready.ok()) {
        return Finish(ToGrpc(ready));
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
      if (!status.ok()) return Finish(status);
      StartWriteAndFinish(&response_, grpc::WriteOptions(), status);
    }

    Relay& relay_;
    grpc::GenericCallbackServerContext& context_;
    grpc::ClientContext client_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };

  const std::map<std::string, Answer> answers_;
  const std::unique_ptr<UnixChannel> channel_;
  grpc::GenericStub stub_;
  base::WorkerPool workers_;
  std::unique_ptr<UnixServer> server_;  // last: it is stopped first, and no call comes any more
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
