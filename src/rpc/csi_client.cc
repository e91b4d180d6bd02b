#include "rpc/csi_client.h"

#include "proto/csi.grpc.pb.h"
#include "rpc/csi_limits.h"
#include "rpc/unix_channel.h"

namespace berth::rpc {
namespace {

// Gives UNAVAILABLE for an answer that exceeds the bounds, because Berth does not use it, but the
// driver may have carried out the request.
template <typename Response>
base::StatusOr<Response> CheckAnswer(base::StatusOr<Response> answer, std::string_view method) {
  if (!answer.ok()) return answer;
  const base::Status fits = CheckLimits(*answer, kAnswerLimits);
  if (fits.ok()) return answer;
  return base::Error(base::StatusCode::kUnavailable, "{}: the driver's answer is refused: {}",
                     method, base::Message(fits));
}

}  // namespace

struct CsiClient::Stubs {
  explicit Stubs(std::unique_ptr<UnixChannel> unix_channel)
      : channel(std::move(unix_channel)),
        Identity(channel->grpc()),
        Controller(channel->grpc()),
        GroupController(channel->grpc()),
        Node(channel->grpc()) {}

  const std::unique_ptr<UnixChannel> channel;
  // These have the names of the services, because the macro below uses them.
  csi::v1::Identity::Stub Identity;
  csi::v1::Controller::Stub Controller;
  csi::v1::GroupController::Stub GroupController;
  csi::v1::Node::Stub Node;
};

base::StatusOr<std::unique_ptr<CsiClient>> CsiClient::New(const std::string& socket) {
  ASSIGN_OR_RETURN(auto channel, UnixChannel::New(socket));
  std::string path = channel->socket();
  return std::unique_ptr<CsiClient>(
      new CsiClient(std::move(path), std::make_unique<Stubs>(std::move(channel))));
}

CsiClient::CsiClient(std::string socket, std::unique_ptr<Stubs> stubs)
    : socket_(std::move(socket)), stubs_(std::move(stubs)) {}

CsiClient::~CsiClient() = default;

void CsiClient::CancelAll() { stubs_->channel->CancelAll(); }

#define BERTH_DEFINE(service, rpc)                                                            \
  base::StatusOr<csi::v1::rpc##Response> CsiClient::rpc(const csi::v1::rpc##Request& request, \
                                                        Timeout timeout) {                    \
    const CallName name = {                                                                   \
        .method = #rpc, .points = base::CallPointsOf<"rpc.csi." #rpc>(), .log_bodies = true}; \
    return CheckAnswer(CallUnary(*stubs_->channel, name, stubs_->service,                     \
                                 &csi::v1::service::Stub::rpc, request, timeout),             \
                       #rpc);                                                                 \
  }
BERTH_CSI_RPCS(BERTH_DEFINE)
BERTH_CSI_GROUP_RPCS(BERTH_DEFINE)
#undef BERTH_DEFINE

}  // namespace berth::rpc
