#include "http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

#include "base/free_text.h"

namespace berth::http {
namespace beast = boost::beast;

namespace {

// The shortest end of a chunked body: "0\r\n\r\n".
constexpr size_t kLastChunkSize = 5;

std::string ToStd(beast::string_view s) { return {s.data(), s.size()}; }

Request CopyFields(const beast::http::request<beast::http::string_body>& message) {
  Request request;
  request.method = ToStd(message.method_string());
  request.target = ToStd(message.target());
  for (const auto& field : message.base()) {
    request.headers.emplace_back(ToStd(field.name_string()), ToStd(field.value()));
  }
  request.wants_close = !message.keep_alive();
  return request;
}
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
      head_checked_ = false;
      head_size_ = 0;
    }
    // Beast's parser asserts that it never sees less of the last chunk once it has begun with it.
    // Whatever else begins so is followed by more as well.
    if (head_checked_ && parser_->chunked() && in_[0] == '0' && in_.size() < kLastChunkSize) break;
    boost::system::error_code error;
    const size_t used = parser_->put(boost::asio::buffer(in_), error);
    in_.erase(0, used);
    if (!head_checked_) head_size_ += used;
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
      if (const Result checked = CheckHead(); checked == Result::kRefused) return checked;
      if (!parser_->is_done() && !HasWholeBody()) return Result::kHead;
    }
    if (parser_->is_done()) return Result::kRequest;
    if (used == 0) break;
  }
  if (in_.empty()) base::FreeText(in_);
  return Result::kMore;
}

RequestReader::Result RequestReader::CheckHead() {
  const auto& head = parser_->get();
  if (head.version() != 11 && !(bounds_.http_1_0 && head.version() == 10)) {
    return MakeRefusal(505, "HTTP/1.1 is needed");
  }
  expectation_ = !parser_->is_done() &&
                 EqualsIgnoreCase(ToStd(head[beast::http::field::expect]), "100-continue");
  // Up to here the parser has stopped behind the head. From now on it reads as far as it can.
  parser_->eager(true);
  return Result::kMore;
}

bool RequestReader::HasWholeBody() const {
  const auto size = parser_->content_length();
  return size && *size <= in_.size();
}

Request RequestReader::TakeRequest() {
  auto message = parser_->release();
  parser_.reset();
  if (in_.empty()) base::FreeText(in_);
  Request request = CopyFields(message);
  request.body = std::move(message.body());
  return request;
}

RequestHead RequestReader::head() const {
  const auto& head = parser_->get();
  const std::string target = ToStd(head.target());
  return {.method = ToStd(head.method_string()),
          .path = target.substr(0, target.find('?')),
          .has_credentials = head.find(beast::http::field::authorization) != head.end()};
}

Request RequestReader::CopyHead() const { return CopyFields(parser_->get()); }

bool RequestReader::TakeExpectation() { return std::exchange(expectation_, false); }

size_t RequestReader::memory() const {
  if (!parser_) return in_.size();
  const auto& body = parser_->get().body();
  // The parser takes the memory for an announced body when it begins to read it.
  const size_t announced =
      head_checked_ ? static_cast<size_t>(parser_->content_length_remaining().value_or(0)) : 0;
  return head_size_ + std::max(body.capacity(), body.size() + announced) + in_.size();
}

void RequestReader::Clear() {
  parser_.reset();
  base::FreeText(in_);
}

}  // namespace berth::http
