#include "rpc/cri_client.h"

#include "base/fault.h"
#include "base/log.h"
#include "proto/cri.grpc.pb.h"
#include "rpc/unix_channel.h"

namespace berth::rpc {

struct CriClient::Stubs {
  explicit Stubs(std::unique_ptr<UnixChannel> unix_channel)
      : channel(std::move(unix_channel)), Runtime(channel->grpc()), Image(channel->grpc()) {}

  const std::unique_ptr<UnixChannel> channel;
  cri::RuntimeService::Stub Runtime;
  cri::ImageService::Stub Image;
};

base::StatusOr<std::unique_ptr<CriClient>> CriClient::New(const std::string& endpoint,
                                                          int max_answer_bytes) {
  ASSIGN_OR_RETURN(auto channel, UnixChannel::New(endpoint, max_answer_bytes));
  return std::unique_ptr<CriClient>(new CriClient(std::make_unique<Stubs>(std::move(channel))));
}

CriClient::CriClient(std::unique_ptr<Stubs> stubs) : stubs_(std::move(stubs)) {}

CriClient::~CriClient() = default;

void CriClient::CancelAll() { stubs_->channel->CancelAll(); }

// Bodies are not logged, because they carry environment variables and registry passwords.
#define BERTH_DEFINE(service, rpc)                                                               \
  base::StatusOr<cri::rpc##Response> CriClient::rpc(const cri::rpc##Request& request,            \
                                                    Timeout timeout) {                           \
    const CallName name = {.method = #rpc, .points = base::CallPointsOf<"rpc.cri." #rpc>()};     \
    return CallUnary(*stubs_->channel, name, stubs_->service, &cri::service##Service::Stub::rpc, \
                     request, timeout);                                                          \
  }
BERTH_CRI_RPCS(BERTH_DEFINE)
#undef BERTH_DEFINE

base::StatusOr<cri::ExecSyncResponse> CriClient::ExecSync(const cri::ExecSyncRequest& request,
                                                          Timeout timeout,
                                                          const std::stop_token& stop) {
  return CallUnary(*stubs_->channel,
                   {.method = "ExecSync", .points = base::CallPointsOf<"rpc.cri.ExecSync">()},
                   stubs_->Runtime, &cri::RuntimeService::Stub::ExecSync, request, timeout, stop);
}

base::Status CriClient::GetContainerEvents(
    std::stop_token stop, const std::function<void(const cri::ContainerEventResponse&)>& on_event) {
  const base::CallPoints points = base::CallPointsOf<"rpc.cri.GetContainerEvents">();
  RETURN_IF_ERROR(points.before->PassPoint());
  RETURN_IF_ERROR_WITH(stubs_->channel->PrepareCall(std::chrono::seconds(2)), "GetContainerEvents");
  // No deadline: the stream lives until `stop` cancels it.
  grpc::ClientContext context;
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  const auto reader = stubs_->Runtime.GetContainerEvents(&context, cri::GetEventsRequest());
  cri::ContainerEventResponse event;
  base::Status lost;
  while (lost.ok() && reader->Read(&event)) {
    lost = points.after->PassPoint();
    if (lost.ok()) on_event(event);
  }
  if (!lost.ok()) context.TryCancel();
  base::Status status = FromGrpc(reader->Finish());
  if (!lost.ok()) status = lost;
  if (stop.stop_requested()) return base::OkStatus();
  RETURN_IF_ERROR_WITH(status, "GetContainerEvents");
  return base::Error(base::StatusCode::kUnavailable,
                     "GetContainerEvents: the runtime ended the stream");
}

}  // namespace berth::rpc
