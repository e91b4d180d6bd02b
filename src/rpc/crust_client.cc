#include "rpc/crust_client.h"

#include "proto/crust.grpc.pb.h"
#include "rpc/unix_channel.h"
#include "rpc/unix_socket.h"

namespace berth::rpc {

base::StatusOr<std::unique_ptr<CrustClient>> CrustClient::New(const std::string& socket,
                                                              uid_t uid) {
  ASSIGN_OR_RETURN(std::string path, SocketPath(socket));
  return std::unique_ptr<CrustClient>(new CrustClient(std::move(path), uid));
}

#define BERTH_DEFINE(rpc)                                                                        \
  base::StatusOr<crust::rpc##Response> CrustClient::rpc(const crust::rpc##Request& request,      \
                                                        Timeout timeout) {                       \
    const CallName name = {                                                                      \
        .method = #rpc, .points = base::CallPointsOf<"rpc.crust." #rpc>(), .log_bodies = true};  \
    base::StatusOr<std::unique_ptr<UnixChannel>> channel =                                       \
        UnixChannel::ConnectToPeer(socket_, uid_);                                               \
    if (!channel.ok()) return NotSent(base::Annotate(channel.status(), name.method));            \
    crust::RuntimeAssistedStorageManagement::Stub stub((*channel)->grpc());                      \
    return CallUnary(**channel, name, stub, &crust::RuntimeAssistedStorageManagement::Stub::rpc, \
                     request, timeout);                                                          \
  }
BERTH_CRUST_RPCS(BERTH_DEFINE)
#undef BERTH_DEFINE

}  // namespace berth::rpc
