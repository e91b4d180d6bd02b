// The little HTTP/1.1 that the streaming server needs: one request a connection.
//
// What comes in is bounded: a head of 32 KiB, read within the deadline. Blocking; a descriptor is
// used by one thread at a time, but for shutdown(2), which ends its calls.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace berth::node {

struct HttpRequest {
  std::string method;
  std::string target;                             // as it came
  std::vector<std::string> path;                  // its parts, percent-decoded
  std::multimap<std::string, std::string> query;  // percent-decoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string rest;  // bytes that came after the head

  // The first value; "" if there is none.
  std::string Query(const std::string& name) const;
  // "1", "true" and a bare name are true, as in Kubernetes.
  bool QueryFlag(const std::string& name) const;
};

// INVALID_ARGUMENT for what is no request; RESOURCE_EXHAUSTED beyond the bound.
base::StatusOr<HttpRequest> ParseHttpRequest(std::string_view head);
// Reads up to the end of the head. CANCELLED: the peer went before it said anything.
base::StatusOr<HttpRequest> ReadHttpRequest(int fd, std::chrono::milliseconds timeout);

// All of `bytes`, or UNAVAILABLE: the peer is gone, or takes nothing for `timeout`.
base::Status SendAll(int fd, std::string_view bytes, std::chrono::milliseconds timeout);

// An error as a whole answer: a Kubernetes Status, with the HTTP code that fits `status`.
std::string HttpError(const base::Status& status);

// A chunk of a body with "Transfer-Encoding: chunked"; an empty one ends it.
std::string HttpChunk(std::string_view bytes);

}  // namespace berth::node
