// Random text as the target of a request: the path selects a resource, the query has its options.

#include <cstdlib>
#include <string_view>

#include "apiserver/kinds/kind_registry.h"
#include "apiserver/requests/list_options.h"
#include "apiserver/requests/resource_request.h"

namespace {

using namespace berth::apiserver;

const ServedKinds& Kinds() {
  static const KindRegistry registry;
  static const auto kinds = registry.Current();
  return *kinds;
}

void TryOptions(const ResourceRequest& request) {
  (void)ParseListQuery(request);
  (void)ParseWatchQuery(request);
  const auto token = DecodeContinue(request.query.Get("continue"));
  if (!token.ok()) return;
  // A token that can be read must be the same after it was written and read again.
  const auto again = DecodeContinue(EncodeContinue(*token));
  if (!again.ok() || again->start != token->start || again->revision != token->revision) {
    std::abort();
  }
}

void Try(std::string_view text) {
  for (const std::string_view prefix : {"", "/api/v1/pods?", "/api/v1/events?labelSelector="}) {
    berth::http::Request request;
    request.method = "GET";
    request.target = std::string(prefix) + std::string(text);
    const auto routed = RouteRequest(request, Kinds());
    if (!routed.ok()) {
      if (!IsKubeError(routed.status())) std::abort();
      continue;
    }
    // A name must not lead to a key outside of its kind's keys.
    for (const std::string& part : {routed->ns, routed->name}) {
      if (part == "." || part == ".." || part.find('/') != std::string::npos) std::abort();
    }
    TryOptions(*routed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
