// Parses the Accept and Accept-Encoding headers of a request.
//
// Pure. Both headers are bounded, because the request's head is. At most 64 ranges of an Accept
// header are read.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"

namespace berth::apiserver {

// One entry of an Accept header: "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.8".
struct MediaRange {
  std::string type;  // in lower case: "application/json", "application/*" or "*/*"
  std::vector<std::pair<std::string, std::string>> parameters;  // without q, in order
  double quality = 1;

  // The value of the first parameter `name`; empty if there is none.
  std::string_view Parameter(std::string_view name) const;
  // Whether the range includes `media_type` ("application/json"). Parameters are ignored.
  bool Includes(std::string_view media_type) const;
};

// The ranges that the client accepts, the best first: by quality, then the more specific, then in
// order. Those of quality 0 and those that are no media range are left out. An empty header accepts
// everything.
std::vector<MediaRange> ParseAccept(std::string_view header);

// Whether the client accepts an answer that is compressed with gzip.
bool AcceptsGzip(const http::Request& request);

}  // namespace berth::apiserver
