// Random text as headers by which client and server agree on the form of an answer.

#include <cstdlib>
#include <string_view>

#include "apiserver/documents/discovery.h"
#include "apiserver/formats/entity_tag.h"
#include "apiserver/formats/media_range.h"
#include "apiserver/formats/reply_encoder.h"

namespace {

using namespace berth::apiserver;

void Try(std::string_view text) {
  double quality = 1;
  for (const MediaRange& range : ParseAccept(text)) {
    // The best type comes first, and no type with quality 0 is in the list.
    if (range.quality > quality || range.quality <= 0) std::abort();
    quality = range.quality;
    if (range.type.find('/') == std::string::npos) std::abort();
  }
  berth::http::Request request;
  request.method = "GET";
  request.target = "/apis";
  for (const char* name : {"Accept", "Accept-Encoding", "If-None-Match", "User-Agent"}) {
    request.headers.emplace_back(name, std::string(text));
  }
  (void)AcceptsGzip(request);
  (void)WantsPretty(request);
  const auto document = MakeDiscoveryDocument(berth::api::BuiltInKinds(), "/apis", request, "");
  if (!document || (document->code != 200 && document->code != 304 && document->code != 406)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
