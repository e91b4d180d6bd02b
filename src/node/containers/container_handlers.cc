#include "node/containers/container_handlers.h"

#include <curl/curl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>

#include "base/log.h"
#include "rpc/outcome.h"

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
namespace json = base::json;

// A port by number or by its name in the container.
StatusOr<int> FindPort(const api::Container& container, const Json* port) {
  if (port != nullptr && port->is_number_integer()) return port->get<int>();
  const std::string name = port != nullptr && port->is_string() ? port->get<std::string>() : "";
  for (const Json& known : json::Array(container.json(), {"ports"})) {
    if (!name.empty() && json::String(known, {"name"}) == name) {
      return static_cast<int>(json::Int(known, {"containerPort"}));
    }
  }
  return base::Error(StatusCode::kInvalidArgument, "container '{}' has no port named '{}'",
                     container.name(), name);
}

Status RunExec(rpc::CriClient& cri, const HandlerTarget& target, const Json& exec,
               milliseconds timeout) {
  rpc::cri::ExecSyncRequest request;
  request.set_container_id(target.container_id.text());
  for (const Json& word : json::Array(exec, {"command"})) {
    if (word.is_string()) request.add_cmd(word.get<std::string>());
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout);
  request.set_timeout(seconds.count());
  // The runtime ends the command at `timeout`. The longer timeout of this call is for a runtime
  // that does not answer.
  const auto response = cri.ExecSync(request, timeout + milliseconds(10000));
  RETURN_IF_ERROR(response);
  if (response->exit_code() == 0) return base::OkStatus();
  const std::string output = response->stdout() + response->stderr();
  return base::Error(StatusCode::kFailedPrecondition, "command exited with {}: {}",
                     response->exit_code(), base::Quote(output));
}

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

size_t Discard(char*, size_t size, size_t count, void* total) {
  // A probe reads at most 10 KiB of the body, as in the kubelet.
  auto* read = static_cast<size_t*>(total);
  *read += size * count;
  return *read > 10 * 1024 ? 0 : size * count;
}

// curl calls it once a second and at every progress; a result other than 0 ends the transfer.
int StopRequested(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

void LimitTransfer(CURL* curl, milliseconds timeout, std::stop_token& stop) {
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, StopRequested);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
}

Status CurlError(CURLcode code, const std::string& url) {
  if (code == CURLE_ABORTED_BY_CALLBACK)
    return base::Error(StatusCode::kCancelled, "{}: stopped", url);
  return base::Error(
      code == CURLE_OPERATION_TIMEDOUT ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable,
      "{}: {}", url, curl_easy_strerror(code));
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

Status RunHttp(const HandlerTarget& target, const Json& get, milliseconds timeout,
               std::stop_token stop) {
  ASSIGN_OR_RETURN(const int port, FindPort(target.container, json::Find(get, {"port"})));
  std::string path = json::String(get, {"path"}, "/");
  if (!path.starts_with('/')) path = "/" + path;
  const bool https = json::String(get, {"scheme"}) == "HTTPS";
  const std::string url =
      fmt::format("{}://{}:{}{}", https ? "https" : "http",
                  Bracketed(json::String(get, {"host"}, target.pod_ip)), port, path);
  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (curl == nullptr) return base::Error(StatusCode::kInternal, "curl_easy_init failed");
  std::unique_ptr<curl_slist, CurlDeleter> headers;
  for (const Json& header : json::Array(get, {"httpHeaders"})) {
    const std::string line =
        json::String(header, {"name"}) + ": " + json::String(header, {"value"});
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  }
  size_t read = 0;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "kube-probe/berth");
  curl_easy_setopt(curl.get(), CURLOPT_SSL_VERIFYPEER,
                   0L);  // a probe does not check the server's identity
  curl_easy_setopt(curl.get(), CURLOPT_SSL_VERIFYHOST, 0L);
  LimitTransfer(curl.get(), timeout, stop);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Discard);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &read);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK && code != CURLE_WRITE_ERROR) return CurlError(code, url);
  long answer = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer);
  if (answer >= 200 && answer < 400) return base::OkStatus();
  return base::Error(StatusCode::kFailedPrecondition, "HTTP probe failed with statuscode: {}",
                     answer);
}

Status RunTcp(const HandlerTarget& target, const Json& tcp, milliseconds timeout,
              std::stop_token stop) {
  ASSIGN_OR_RETURN(const int port, FindPort(target.container, json::Find(tcp, {"port"})));
  const std::string url =
      fmt::format("http://{}:{}", Bracketed(json::String(tcp, {"host"}, target.pod_ip)), port);
  const std::unique_ptr<CURL, CurlDeleter> curl(curl_easy_init());
  if (curl == nullptr) return base::Error(StatusCode::kInternal, "curl_easy_init failed");
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CONNECT_ONLY, 1L);
  LimitTransfer(curl.get(), timeout, stop);
  const CURLcode code = curl_easy_perform(curl.get());
  return code == CURLE_OK ? base::OkStatus() : CurlError(code, url);
}

// Calls grpc.health.v1.Health/Check. Its messages are so small that they are encoded by hand:
// HealthCheckRequest{service=1 string}, HealthCheckResponse{status=1 enum, SERVING=1}.
Status RunGrpc(const HandlerTarget& target, const Json& grpc_action, milliseconds timeout,
               std::stop_token stop) {
  const std::string service = json::String(grpc_action, {"service"});
  if (service.size() > 127)
    return base::Error(StatusCode::kInvalidArgument, "service name too long");
  std::string wire;
  if (!service.empty()) wire = std::string("\x0a") + static_cast<char>(service.size()) + service;
  const std::string address =
      fmt::format("{}:{}", Bracketed(target.pod_ip), json::Int(grpc_action, {"port"}));
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  const grpc::Slice slice(wire);
  grpc::ByteBuffer request(&slice, 1), response;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::Status status;
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);  // waits at most until the call's deadline
  if (!status.ok()) return rpc::FromGrpc(status);
  grpc::Slice answer;
  if (!response.TrySingleSlice(&answer).ok() || answer.size() != 2 || answer.begin()[0] != 0x08 ||
      answer.begin()[1] != 1) {
    return base::Error(StatusCode::kFailedPrecondition, "service unhealthy: not SERVING");
  }
  return base::OkStatus();
}

}  // namespace

Status RunHandler(rpc::CriClient& cri, const HandlerTarget& target, const Json& handler,
                  milliseconds timeout, std::stop_token stop) {
  if (const Json* exec = json::Find(handler, {"exec"}); exec != nullptr) {
    return RunExec(cri, target, *exec, timeout);
  }
  if (const Json* get = json::Find(handler, {"httpGet"}); get != nullptr) {
    return RunHttp(target, *get, timeout, stop);
  }
  if (const Json* tcp = json::Find(handler, {"tcpSocket"}); tcp != nullptr) {
    return RunTcp(target, *tcp, timeout, stop);
  }
  if (const Json* grpc_action = json::Find(handler, {"grpc"}); grpc_action != nullptr) {
    return RunGrpc(target, *grpc_action, timeout, stop);
  }
  return base::Error(StatusCode::kInvalidArgument,
                     "no handler (exec, httpGet, tcpSocket, grpc) is given");
}

}  // namespace berth::node
