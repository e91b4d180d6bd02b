// Bytes in, requests out: the HTTP/1.1 requests of one connection, one after the other.
//
//   Append ─▶ Next: kMore ─▶ Append ...      the request isn't whole yet
//                   kRequest ─▶ Take          and on with what follows it
//                   kRefused                  nothing more can be read from this client
//
// Everything is bounded: head, body, and what chunks and trailers say besides. Between requests it
// holds no memory. Pure; not thread-safe.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "http/message.h"

namespace berth::http {

class RequestReader {
 public:
  enum class Result { kMore, kRequest, kRefused };

  struct Bounds {
    size_t max_head;
    size_t max_body;
    bool http_1_0 = false;  // takes requests of HTTP/1.0 as well
  };
  explicit RequestReader(const Bounds& bounds) : bounds_(bounds) {}

  void Append(std::string_view bytes) { in_.append(bytes); }
  Result Next();
  // The request that Next has found, without its user.
  Request Take();

  // Once, when the head of a request has come and its body has not.
  std::optional<RequestHead> TakeHead() { return std::exchange(head_, std::nullopt); }
  // Once, when the head of a request has come whose client waits to be told to send the body.
  bool TakeExpectation();
  // Why it is kRefused.
  const Refusal& refusal() const { return refusal_; }

  // Nothing of a request has come.
  bool idle() const { return parser_ == nullptr && in_.empty(); }
  // Bytes that have come and are not yet read.
  size_t waiting() const { return in_.size(); }
  // The memory that the body of the present request takes, or will.
  size_t body_size() const;
  // The bytes behind the last request.
  std::string TakeRest() { return std::exchange(in_, std::string()); }
  // Forgets what has come.
  void Clear();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  Result Refuse(int code, std::string message);

  const Bounds bounds_;
  std::string in_;
  std::unique_ptr<Parser> parser_;
  bool looked_at_head_ = false;
  bool expectation_ = false;
  std::optional<RequestHead> head_;
  Refusal refusal_;
};

}  // namespace berth::http
