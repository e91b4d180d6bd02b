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

// Answers larger than this (bytes) are compressed if the client accepts it. Smaller answers are
// not, because the compression would take longer than sending the bytes that it saves.
inline constexpr size_t kGzipFrom = 128 * 1024;

// Whether JSON is indented: if the query has pretty=true, or if it has no `pretty` and the client
// is a browser, curl or Wget.
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
  // Returns the bytes to send for the next piece. They may be empty, because the compressor gathers
  // input.
  std::string EncodePiece(std::string piece);
  // Returns the bytes to send at the end. Call it once, after the last piece.
  std::string Finish();

 private:
  std::unique_ptr<JsonIndenter> indenter_;
  std::unique_ptr<http::GzipWriter> gzip_;
};

// Indents and compresses `response`, a whole answer in JSON or another type, as `request` asks. An
// answer that has a Content-Encoding stays as it is.
void EncodeReply(const http::Request& request, http::Response& response);

}  // namespace berth::apiserver
