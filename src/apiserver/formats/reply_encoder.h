// How the text of an answer goes out to the client that asked: indented if it wants to read it,
// compressed if that pays.
//
// A whole answer goes through Reply in api_context.h; a list passes one piece after the other
// through a ReplyEncoder of its own. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apiserver/formats/json_indenter.h"
#include "http/gzip.h"
#include "http/message.h"

namespace berth::apiserver {

// From this size on an answer is compressed for a client that can take it; below, the time is worth
// more than the bytes.
inline constexpr size_t kGzipFrom = 128 * 1024;

// Whether JSON is to be indented: `?pretty=true`, or a browser or curl that doesn't say otherwise.
bool WantsPretty(const http::Request& request);

class ReplyEncoder {
 public:
  struct Options {
    bool pretty = false;  // only for JSON
    bool gzip = false;
  };
  explicit ReplyEncoder(const Options& options);

  // Headers that the answer then has.
  void AddHeaders(http::Response& head) const;
  // What goes out for the next piece; it may be empty while the compressor gathers.
  std::string Next(std::string piece);
  // What goes out at the end.
  std::string Finish();

 private:
  std::unique_ptr<JsonIndenter> indenter_;
  std::unique_ptr<http::GzipWriter> gzip_;
};

// Indents and compresses `response`, a whole answer in JSON or another type, as `request` asks.
void EncodeFor(const http::Request& request, http::Response& response);

}  // namespace berth::apiserver
