// The data of a request and of its answer, independent of any connection.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "http/url.h"

namespace berth::http {

// The user who sends a request. A Service (service.h) determines it.
struct User {
  std::string name;
  std::string uid;  // mostly empty
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
  // The end of the certificate, which matters because a connection may live longer than its
  // certificate.
  base::WallTime valid_until = base::WallTime::max();
};

struct Request {
  std::string method;
  std::string target;  // as sent: "/api/v1/pods?limit=5"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::shared_ptr<const User> user;  // null: not known yet, or no user
  // Whom the client's connection has shown itself to be, by its transport or by an earlier request.
  // It is for shares of the server, and not for rights. Null: a stranger.
  std::shared_ptr<const User> known = nullptr;
  std::string address = {};  // of a stranger, as peer.h names it
  bool wants_close = false;  // the client asked to close the connection after the answer
  // The client is a thread of this process (local_call.h), which has nothing to do before the
  // answer.
  bool local = false;

  // The value of the first header `name`, in which case is ignored; empty if there is none.
  std::string_view Header(std::string_view name) const;
  bool is_head() const { return method == "HEAD"; }
  // The parts of `target` before and after the '?', not decoded. The query is empty if there is
  // none.
  std::string_view raw_path() const;
  std::string_view raw_query() const;
};

// The part of a request that is known before its body has arrived.
struct RequestHead {
  std::string method;
  std::string path;              // without the query, not decoded
  bool has_credentials = false;  // an Authorization header
};

// Why the server itself refuses a request, or refuses bytes that are not a valid request.
struct Refusal {
  int code = 400;  // the HTTP status
  std::string message;
};

struct Response {
  int code = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beyond type and length
  // The Cache-Control header; empty: no such header. By default caches must not keep answers,
  // because objects change at any time and may be secret.
  std::string_view cache_control = "no-cache, private";
};

// Returns the bytes of an answer whose length is known: head and body, or only the head for a HEAD
// request (`head_only`). `close` adds "Connection: close".
std::string EncodeResponse(const Response& response, bool close, bool head_only = false);
// Returns the head of an answer whose body comes in chunks.
std::string EncodeStreamHead(const Response& head, bool close);
// Returns `data` as one chunk of a chunked answer. The result is empty for empty data, because an
// empty chunk would end the stream.
std::string EncodeChunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// The answer's bytes, shared between the connections that they go to.
using Frame = std::shared_ptr<const std::string>;
inline Frame MakeFrame(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace berth::http
