#include "rpc/unix_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>

#include "base/flight.h"
#include "base/log.h"
#include "rpc/outcome.h"
#include "rpc/redact.h"
#include "rpc/unix_socket.h"

namespace berth::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The path as a gRPC target, percent-encoded, because gRPC parses a target as a URI.
std::string ToTarget(std::string_view path) {
  std::string target = "unix:";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' ||
                       c == '-' || c == '_' || c == '~';
    target += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return target;
}

grpc::ChannelArguments MakeArguments(int max_answer_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(max_answer_bytes);
  // Drivers put whole command outputs into error messages, which travel as metadata.
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 64 * 1024);
  // The process-wide pool would let another client's backoff delay this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Despite its name, this bounds one attempt to connect. A peer that listens but is slow to answer
  // gets this time.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20'000);
  // The caller retries, because it knows which calls may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

// Whether the error is gRPC's own and is about an answer that it could not read: the answer is not
// a valid message, is longer than max_answer_bytes, has an error text longer than the limit of
// metadata, or the stream broke. The codes of these errors wrongly mean that the peer did nothing.
bool IsOfUnreadableAnswer(const base::Status& status) {
  const std::string_view text = base::Message(status);
  const auto says = [&](std::string_view part) { return text.find(part) != text.npos; };
  switch (status.code()) {
    case base::StatusCode::kUnimplemented:
      return text == "No message returned for unary request";
    case base::StatusCode::kResourceExhausted:
      return says("eceived message larger than max") ||
             (says("metadata size exceeds") && says("limit"));
    case base::StatusCode::kInternal:
      return says("Received RST_STREAM with error code");
    case base::StatusCode::kUnknown:
      return says("Stream removed");
    default:
      return false;
  }
}

// Gives UNAVAILABLE for an answer that could not be read, because the outcome is unknown.
base::Status ConvertUnreadable(base::Status status) {
  if (!IsOfUnreadableAnswer(status)) return status;
  return base::Error(base::StatusCode::kUnavailable, "the answer cannot be read: {}",
                     base::Message(status));
}

}  // namespace

base::StatusOr<std::unique_ptr<UnixChannel>> UnixChannel::New(std::string_view endpoint,
                                                              int max_answer_bytes) {
  ASSIGN_OR_RETURN(std::string path, SocketPath(endpoint));
  auto channel = grpc::CreateCustomChannel(ToTarget(path), grpc::InsecureChannelCredentials(),
                                           MakeArguments(max_answer_bytes));
  return std::unique_ptr<UnixChannel>(
      new UnixChannel(std::move(path), std::move(channel), /*connected=*/false));
}

base::StatusOr<std::unique_ptr<UnixChannel>> UnixChannel::ConnectToPeer(std::string_view endpoint,
                                                                        uid_t uid,
                                                                        int max_answer_bytes) {
  ASSIGN_OR_RETURN(std::string path, SocketPath(endpoint));
  ASSIGN_OR_RETURN(base::UniqueFd socket, ConnectTo(path));
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != uid) {
    return base::Error(base::StatusCode::kPermissionDenied,
                       "socket {} is served by user {}, not by user {}", base::Quote(path),
                       peer.uid, uid);
  }
  auto channel = grpc::CreateCustomInsecureChannelFromFd("localhost", socket.Release(),
                                                         MakeArguments(max_answer_bytes));
  return std::unique_ptr<UnixChannel>(
      new UnixChannel(std::move(path), std::move(channel), /*connected=*/true));
}

UnixChannel::UnixChannel(std::string socket, std::shared_ptr<grpc::Channel> channel, bool connected)
    : socket_(std::move(socket)), channel_(std::move(channel)), connected_(connected) {}

base::Status UnixChannel::PrepareCall(Timeout timeout) {
  if (connected_) return base::OkStatus();
  if (channel_->GetState(false) == GRPC_CHANNEL_READY) return base::OkStatus();
  RETURN_IF_ERROR(ProbeSocket(socket_));
  if (channel_->GetState(true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return base::OkStatus();
  // In this state a call fails at once although the peer listens again, so the channel connects
  // first. If the peer listens but does not answer, the call's own deadline ends the call.
  grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
  channel_->WaitForConnected(std::chrono::system_clock::now() +
                             std::min<milliseconds>(timeout, milliseconds(2000)));
  return base::OkStatus();
}

void UnixChannel::CancelAll() {
  base::MutexLock lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

UnixChannel::Running::Running(UnixChannel& channel, grpc::ClientContext& context)
    : channel_(channel), context_(context) {
  base::MutexLock lock(channel_.mutex_);
  channel_.running_.insert(&context_);
  if (channel_.cancelled_) context_.TryCancel();
}

UnixChannel::Running::~Running() {
  base::MutexLock lock(channel_.mutex_);
  channel_.running_.erase(&context_);
}

base::Status RunUnary(UnixChannel& channel, const CallName& name,
                      const google::protobuf::Message& request, google::protobuf::Message& response,
                      Timeout timeout, const std::stop_token& stop,
                      const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  const bool log = spdlog::should_log(spdlog::level::debug);
  if (log) {
    LOG_DEBUG("{} at {}: {}", name.method, base::Quote(channel.socket()),
              name.log_bodies ? RedactedText(request) : "");
  }
  if (const base::Status passed = name.points.before->PassPoint(); !passed.ok())
    return NotSent(passed);
  const auto start = Clock::now();
  base::FlightSpan span(base::FlightKind::kCall, name.method, channel.socket());
  base::Status status = channel.PrepareCall(timeout);
  if (!status.ok()) {
    status = NotSent(std::move(status));
  } else {
    grpc::ClientContext context;
    const auto left = timeout - std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    context.set_deadline(std::chrono::system_clock::now() + left);
    const UnixChannel::Running running(channel, context);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    status = ConvertUnreadable(FromGrpc(call(&context)));
  }
  span.End(status);
  if (log) {
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - start).count();
    LOG_DEBUG("{} at {} took {} ms: {} {}", name.method, base::Quote(channel.socket()), took,
              status.ok() ? "OK" : base::Quote(base::ToString(status)),
              status.ok() && name.log_bodies ? RedactedText(response) : "");
  }
  if (!status.ok()) return WithMethod(status, name.method);
  return base::Annotate(name.points.after->PassPoint(), name.method);
}

}  // namespace berth::rpc
