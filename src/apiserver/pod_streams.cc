#include "apiserver/pod_streams.h"

#include <iterator>

#include "api/kinds/kinds.h"
#include "api/names.h"
#include "apiserver/formats/object_text.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;

namespace {

// The container that the request is for: the container that it names, or else the pod's only one.
// 400 if the pod has no such container, or if it has several and the request names none.
base::StatusOr<std::string> FindContainer(const api::Pod& pod, const std::string& asked) {
  std::string names;
  std::string inits;
  for (const api::Container& container : pod.containers()) {
    if (container.name() == asked) return asked;
    names += fmt::format("{}{}", names.empty() ? "" : " ", container.name());
  }
  for (const api::Container& container : pod.init_containers()) {
    if (container.name() == asked) return asked;
    inits += fmt::format("{}{}", inits.empty() ? "" : " ", container.name());
  }
  for (const api::Container& container : pod.ephemeral_containers()) {
    if (container.name() == asked) return asked;
  }
  if (!asked.empty()) {
    return BadRequestError(fmt::format("container {} is not valid for pod {}", asked, pod.name()));
  }
  if (names.find(' ') == std::string::npos && !names.empty()) return names;
  const std::string also =
      inits.empty() ? "" : fmt::format(" or one of the init containers: [{}]", inits);
  return BadRequestError(
      fmt::format("a container name must be specified for pod {}, choose one of: [{}]{}",
                  pod.name(), names, also));
}

// The path of the request at the node agent, as in pod_streams.h.
base::StatusOr<std::string> MakeTarget(const api::Pod& pod, const ResourceRequest& request) {
  const std::string& subresource = request.subresource;
  if (subresource == "portforward") {
    return fmt::format("/portForward/{}/{}/{}", pod.ns(), pod.name(), pod.uid());
  }
  ASSIGN_OR_RETURN(const std::string container, FindContainer(pod, request.query.Get("container")));
  return fmt::format("/{}/{}/{}/{}/{}", subresource == "log" ? "containerLogs" : subresource,
                     pod.ns(), pod.name(), pod.uid(), container);
}

// Whether a line of a header can be built from `text`: a line break in it would start another line.
bool IsHeaderText(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

// The request's head as it is sent to the node agent: with another path, with the user in place of
// the credentials, and without reuse of the connection unless it is upgraded to a stream.
std::string MakeHead(const http::Request& request, std::string_view path, size_t body_size) {
  const bool upgrade = !request.Header("Upgrade").empty();
  const std::string_view query = request.raw_query();
  std::string head = fmt::format("{} {}{}{} HTTP/1.1\r\nHost: node\r\n", request.method, path,
                                 query.empty() ? "" : "?", query);
  for (const auto& [name, value] : request.headers) {
    const bool own = http::EqualsIgnoreCase(name, "Host") ||
                     http::EqualsIgnoreCase(name, "Content-Length") ||
                     http::EqualsIgnoreCase(name, "Transfer-Encoding") ||
                     http::EqualsIgnoreCase(name, "Authorization") ||
                     http::EqualsIgnoreCase(name.substr(0, 12), "Impersonate-") ||
                     http::EqualsIgnoreCase(name.substr(0, 9), "X-Remote-") ||
                     http::EqualsIgnoreCase(name, "Expect") ||
                     (http::EqualsIgnoreCase(name, "Connection") && !upgrade);
    if (own || !IsHeaderText(name) || !IsHeaderText(value)) continue;
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
  }
  if (request.user != nullptr) {
    const auto add = [&](std::string_view name, std::string_view value) {
      if (IsHeaderText(value)) fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
    };
    add("X-Remote-User", request.user->name);
    for (const std::string& group : request.user->groups) add("X-Remote-Group", group);
  }
  if (!upgrade) head += "Connection: close\r\n";
  if (body_size > 0 || request.method == "POST") {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", body_size);
  }
  head += "\r\n";
  return head;
}

}  // namespace

bool PodStreams::Serves(std::string_view subresource) {
  return subresource == "log" || subresource == "exec" || subresource == "attach" ||
         subresource == "portforward";
}

void PodStreams::StartStream(const ResourceRequest& request) {
  const auto start = [&]() -> Status {
    const auto record =
        context_.store.Get(ObjectStoreKey(request.info(), request.ns, request.name));
    if (!record.ok()) {
      return record.status().code() == StatusCode::kNotFound
                 ? NotFoundError(request.info(), request.name)
                 : record.status();
    }
    ASSIGN_OR_RETURN(Json object, DecodeStored(*record->value));
    const api::Pod pod(std::move(object));
    ASSIGN_OR_RETURN(const std::string target, MakeTarget(pod, request));
    const std::string node = pod.node_name();
    if (node.empty()) {
      return BadRequestError(fmt::format("pod {} does not have a host assigned", pod.name()));
    }
    if (!api::CheckPathSegment(node).ok()) {
      return BadRequestError(fmt::format("pod {} has an invalid host assigned", pod.name()));
    }
    const std::string body = request.exchange->TakeBody();
    const Status failure =
        KubeError(Reason::kServiceUnavailable,
                  fmt::format("the agent of node \"{}\" cannot be reached; is it running?", node));
    request.exchange->Proxy(
        {.socket = fmt::format("{}/{}.sock", context_.node_sockets, node),
         .head = MakeHead(request.exchange->request(), target, body.size()) + body,
         .failure = ToResponse(failure)});
    return base::OkStatus();
  };
  if (const Status status = start(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
