// Encodes the text of an answer: indents it if the client asks for that, and compresses large
// answers.
//
// Reply in api_context.h encodes whole answers. A list sends its pieces through its own
// ReplyEncoder. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apiserver/formats/json_indenter.h"
#include "http/gzip.h"
#include "http/message.h"

namespace berth::apiserver {

// Answers of at least this size are compressed if the client accepts it. For smaller ones the time
// costs more than the bytes.
inline constexpr size_t kGzipFrom = 128 * 1024;

// Whether to indent JSON: for `?pretty=true`, and for a browser or curl unless the query says
// otherwise.
bool WantsPretty(const http::Request& request);

class ReplyEncoder {
 public:
  struct Options {
    bool pretty = false;  // only for JSON
    bool gzip = false;
  };
  explicit ReplyEncoder(const Options& options);

  // Adds the headers that the encoding needs.
  void AddHeaders(http::Response& head) const;
  // The bytes to send for the next piece. They may be empty while the compressor gathers input.
  std::string Next(std::string piece);
  // The bytes to send at the end.
  std::string Finish();

 private:
  std::unique_ptr<JsonIndenter> indenter_;
  std::unique_ptr<http::GzipWriter> gzip_;
};

// Indents and compresses `response`, a whole answer in JSON or another type, as `request` asks.
void EncodeFor(const http::Request& request, http::Response& response);

}  // namespace berth::apiserver
