// Parses the bytes of one connection into HTTP/1.1 requests, one after the other.
//
//   Append ─▶ Next: kMore ─▶ Append ...      the request isn't whole yet
//                   kHead ─▶ Next ...         only its head is there
//                   kRequest ─▶ TakeRequest   and on with what follows it
//                   kRefused                  nothing more can be read from this client
//
// Head, body, chunk headers and trailers are all bounded. The reader holds no memory between
// requests. Pure; not thread-safe.
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
  enum class Result { kMore, kHead, kRequest, kRefused };

  struct Bounds {
    size_t max_head;
    size_t max_body;
    bool http_1_0 = false;  // accepts HTTP/1.0 requests as well
  };
  explicit RequestReader(const Bounds& bounds) : bounds_(bounds) {}

  void Append(std::string_view bytes) { in_.append(bytes); }
  // Parses the bytes that have arrived. kMore: the request is not complete. kHead, once for each
  // request whose body has not arrived with its head: nothing of the body is read, and no memory is
  // taken for it, before the next call. kRequest: TakeRequest returns it. kRefused: refusal() says
  // why the bytes are not accepted.
  Result Next();
  // Removes and returns the request that Next has found. Its user is not set.
  Request TakeRequest();

  // The head of the current request; only from kHead to kRequest.
  RequestHead head() const;
  // The current request without its body, for the same time. Its user is not set.
  Request CopyHead() const;
  // Returns true once, when the head of a request with "Expect: 100-continue" has arrived. Its
  // client sends the body only after "100 Continue".
  bool TakeExpectation();
  // The reason after Next returned kRefused.
  const Refusal& refusal() const { return refusal_; }

  // Whether no byte of a request has arrived.
  bool idle() const { return parser_ == nullptr && in_.empty(); }
  // Number of bytes that have arrived and are not parsed yet.
  size_t waiting() const { return in_.size(); }
  // The memory in bytes that the current request takes: its head, its body that has arrived or is
  // announced, and what is not parsed yet.
  size_t memory() const;
  // Removes and returns the bytes that follow the last request.
  std::string TakeRest() { return std::exchange(in_, std::string()); }
  // Drops everything that has arrived.
  void Clear();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  // Checks a head that has just arrived. kMore: it is sound.
  Result CheckHead();
  // Whether the whole of an announced body waits behind the head.
  bool HasWholeBody() const;
  // Sets refusal_ and returns kRefused.
  Result MakeRefusal(int code, std::string message);

  const Bounds bounds_;
  std::string in_;
  std::unique_ptr<Parser> parser_;
  size_t head_size_ = 0;       // bytes of the head that the parser has
  bool head_checked_ = false;  // the version and the expectation were read from the head
  bool expectation_ = false;
  Refusal refusal_;
};

}  // namespace berth::http
