// What a request and its answer are, apart from any connection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace berth::apiserver {

// Who sends a request: what the transport or a token says.
struct User {
  std::string name;
  std::string uid;  // of a service account; else mostly empty
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
  // Of the certificate: a connection may outlive it.
  base::WallTime valid_until = base::WallTime::max();
};

// Decoded query parameters, in order.
class Query {
 public:
  Query() = default;
  // INVALID_ARGUMENT: a bad percent escape, or more than 64 parameters.
  static base::StatusOr<Query> Parse(std::string_view raw);

  // The first value of `key`; empty if there is none.
  const std::string& Get(std::string_view key) const;
  // All values of `key`, in order.
  std::vector<std::string> All(std::string_view key) const;
  bool Has(std::string_view key) const;
  // Kubernetes' booleans in a query: "", "1" and "true" of a present key are true, "0" and "false"
  // false.
  bool Bool(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

// `text` with percent escapes (and in queries '+') resolved; nullopt for a bad escape or a NUL
// byte.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space);

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

struct Response {
  int code = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beyond type and length
  // Objects change at any time and may be secret: no cache on the way may keep them.
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

bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace berth::apiserver
