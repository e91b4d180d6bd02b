// What a request and its answer are, apart from any connection.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "http/url.h"

namespace berth::http {

// Who sends a request, as a Service (service.h) says it.
struct User {
  std::string name;
  std::string uid;  // mostly empty
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
  // Of the certificate: a connection may outlive it.
  base::WallTime valid_until = base::WallTime::max();
};

struct Request {
  std::string method;
  std::string target;  // as sent: "/api/v1/pods?limit=5"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<const User> user;  // null: not known yet, or nobody
  bool wants_close = false;          // the client asked for the connection to end with the answer

  // The first header `name` (ignoring case); empty if there is none.
  std::string_view Header(std::string_view name) const;
  bool is_head() const { return method == "HEAD"; }
  std::string_view raw_path() const;
  std::string_view raw_query() const;
};

// What is known of a request before its body has come.
struct RequestHead {
  std::string method;
  std::string path;
  bool has_credentials = false;  // an Authorization header
};

// Why the server itself answers a request, or what should have become one.
struct Refusal {
  int code = 400;  // the HTTP status
  std::string message;
};

struct Response {
  int code = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beyond type and length
  // Empty: nothing is said. Objects change at any time and may be secret, so that no cache on the
  // way may keep them.
  std::string_view cache_control = "no-cache, private";
};

// The bytes of an answer whose length is known, head and body; for a HEAD request only the head.
std::string EncodeResponse(const Response& response, bool close, bool head_only = false);
// The head of an answer that comes in chunks.
std::string EncodeStreamHead(const Response& head, bool close);
// `data` as one chunk of a chunked answer; empty data would end the stream and gives nothing.
std::string EncodeChunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// The answer's bytes, shared between the connections that they go to.
using Frame = std::shared_ptr<const std::string>;
inline Frame MakeFrame(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace berth::http
