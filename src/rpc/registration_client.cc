#include "rpc/registration_client.h"

#include "proto/pluginregistration.grpc.pb.h"
#include "rpc/unix_channel.h"

namespace berth::rpc {
namespace {

namespace wire = ::pluginregistration;

constexpr int kMaxAnswerBytes = 64 * 1024;

}  // namespace

base::StatusOr<PluginInfo> GetPluginInfo(const std::string& socket, Timeout timeout) {
  const CallName name = {.method = "GetInfo",
                         .points = base::CallPointsOf<"rpc.registration.GetInfo">(),
                         .log_bodies = true};
  ASSIGN_OR_RETURN(const auto channel, UnixChannel::New(socket, kMaxAnswerBytes));
  wire::Registration::Stub stub(channel->grpc());
  ASSIGN_OR_RETURN(const wire::PluginInfo info,
                   CallUnary(*channel, name, stub, &wire::Registration::Stub::GetInfo,
                             wire::InfoRequest(), timeout));
  return PluginInfo{
      .type = info.type(),
      .name = info.name(),
      .endpoint = info.endpoint(),
      .supported_versions = {info.supported_versions().begin(), info.supported_versions().end()}};
}

base::Status NotifyRegistrationStatus(const std::string& socket, bool registered,
                                      const std::string& error, Timeout timeout) {
  const CallName name = {
      .method = "NotifyRegistrationStatus",
      .points = base::CallPointsOf<"rpc.registration.NotifyRegistrationStatus">(),
      .log_bodies = true};
  ASSIGN_OR_RETURN(const auto channel, UnixChannel::New(socket, kMaxAnswerBytes));
  wire::Registration::Stub stub(channel->grpc());
  wire::RegistrationStatus request;
  request.set_plugin_registered(registered);
  request.set_error(error);
  return CallUnary(*channel, name, stub, &wire::Registration::Stub::NotifyRegistrationStatus,
                   request, timeout)
      .status();
}

}  // namespace berth::rpc
