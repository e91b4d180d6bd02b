#include "http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

namespace berth::http {
namespace beast = boost::beast;

namespace {
std::string ToStd(beast::string_view s) { return {s.data(), s.size()}; }
}  // namespace

RequestReader::Result RequestReader::MakeRefusal(int code, std::string message) {
  refusal_ = {.code = code, .message = std::move(message)};
  return Result::kRefused;
}

RequestReader::Result RequestReader::Next() {
  while (!in_.empty()) {
    if (!parser_) {
      parser_ = std::make_unique<Parser>();
      parser_->header_limit(static_cast<uint32_t>(bounds_.max_head));
      parser_->body_limit(bounds_.max_body);
      parser_->eager(true);
      head_checked_ = false;
    }
    boost::system::error_code error;
    const size_t used = parser_->put(boost::asio::buffer(in_), error);
    in_.erase(0, used);
    if (error == beast::http::error::body_limit) {
      return MakeRefusal(413,
                         fmt::format("Request entity too large: limit is {}", bounds_.max_body));
    }
    // The parser itself bounds the head. Chunk headers and trailers are bounded here, because the
    // parser waits until they are complete.
    if (error == beast::http::error::header_limit || (used == 0 && in_.size() > bounds_.max_head)) {
      return MakeRefusal(431, "the request's head is too large");
    }
    if (error && error != beast::http::error::need_more) {
      return MakeRefusal(400, fmt::format("malformed HTTP request: {}", error.message()));
    }
    if (parser_->is_header_done() && !head_checked_) {
      head_checked_ = true;
      const auto& head = parser_->get();
      if (head.version() != 11 && !(bounds_.http_1_0 && head.version() == 10)) {
        return MakeRefusal(505, "HTTP/1.1 is needed");
      }
      if (!parser_->is_done()) {
        const std::string target = ToStd(head.target());
        head_ = {.method = ToStd(head.method_string()),
                 .path = target.substr(0, target.find('?')),
                 .has_credentials = head.find(beast::http::field::authorization) != head.end()};
      }
      expectation_ = !parser_->is_done() &&
                     EqualsIgnoreCase(ToStd(head[beast::http::field::expect]), "100-continue");
    }
    if (parser_->is_done()) return Result::kRequest;
    if (used == 0) break;
  }
  if (in_.empty()) in_ = std::string();
  return Result::kMore;
}

Request RequestReader::TakeRequest() {
  head_.reset();
  auto message = parser_->release();
  parser_.reset();
  if (in_.empty()) in_ = std::string();
  Request request;
  request.method = ToStd(message.method_string());
  request.target = ToStd(message.target());
  for (const auto& field : message.base()) {
    request.headers.emplace_back(ToStd(field.name_string()), ToStd(field.value()));
  }
  request.body = std::move(message.body());
  request.wants_close = !message.keep_alive();
  return request;
}

bool RequestReader::TakeExpectation() { return std::exchange(expectation_, false); }

size_t RequestReader::body_size() const {
  return parser_ ? std::max(parser_->get().body().capacity(), parser_->get().body().size()) : 0;
}

void RequestReader::Clear() {
  parser_.reset();
  head_.reset();
  in_ = std::string();
}

}  // namespace berth::http
