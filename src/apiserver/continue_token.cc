#include "apiserver/continue_token.h"

#include "apiserver/kube_status.h"
#include "base/base64.h"

namespace berth::apiserver {

using base::Json;

std::string EncodeContinue(const ContinueToken& token) {
  return base::EncodeBase64Url(
      base::json::Dump({{"v", "meta.k8s.io/v1"}, {"rv", token.revision}, {"start", token.start}}));
}

base::StatusOr<ContinueToken> DecodeContinue(std::string_view text) {
  const auto bytes = text.size() <= 4096 ? base::DecodeBase64Url(text) : std::nullopt;
  const Json json = bytes ? base::json::Parse(*bytes).value_or(Json()) : Json();
  ContinueToken token{.revision = base::json::Int(json, {"rv"}, -1),
                      .start = base::json::String(json, {"start"})};
  if (base::json::String(json, {"v"}) != "meta.k8s.io/v1" || token.revision < 0 ||
      token.start.empty()) {
    return KubeError(Reason::kBadRequest, "continue key is not valid");
  }
  return token;
}

}  // namespace berth::apiserver
