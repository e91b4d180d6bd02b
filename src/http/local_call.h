// One request of this process to its own server, without a socket.
//
//   New ─▶ `serve` is called on the caller's thread ─▶ ReadMore ... ─▶ ended() ─▶ destroyed
//
// The answer is that of a connection, byte for byte, and is read here as a client reads it. It may
// come while `serve` runs, or later from any thread. Only one thread may use a call; Stop may be
// called on any.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "http/exchange.h"
#include "http/service.h"

namespace berth::http {

class LocalCall {
 public:
  using Serve = std::function<void(std::shared_ptr<Exchange>)>;

  // Lets `serve` answer the request. `service` renders the answer to a request that ends without
  // one, and is borrowed for as long as `serve` or what it began holds the exchange.
  LocalCall(const Service& service, Request request, const Serve& serve);
  // Drops the rest of the answer. The handler then sees that its client is gone.
  ~LocalCall();
  LocalCall(const LocalCall&) = delete;
  LocalCall& operator=(const LocalCall&) = delete;

  // Waits until more of the answer has come, it has ended, or Stop was called, and appends what
  // came of the body to `body`. DEADLINE_EXCEEDED: nothing came before `deadline`. UNAVAILABLE: the
  // handler broke the answer off. UNIMPLEMENTED: the answer would come from another server
  // (Exchange::Proxy).
  base::Status ReadMore(std::chrono::steady_clock::time_point deadline, std::string& body);
  // Ends a running ReadMore, and all later ones.
  void Stop();

  int code() const;                                // the HTTP status; 0: not known yet
  std::string_view Header(std::string_view name);  // of the answer; empty: none
  bool ended() const { return ended_; }            // the whole answer was read

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;
  class Host;

  base::Status Append(const Frame& frame, std::string& body);

  const std::shared_ptr<Host> host_;
  std::shared_ptr<Exchange> exchange_;
  Parser parser_;
  std::string rest_;  // bytes of the answer that the parser has not taken
  bool ended_ = false;
};

}  // namespace berth::http
