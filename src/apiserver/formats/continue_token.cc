#include "apiserver/formats/continue_token.h"

#include "apiserver/formats/kube_status.h"
#include "base/base64.h"

namespace berth::apiserver {

using base::Json;

namespace {

base::Status InvalidContinueError(std::string_view why) {
  return KubeError(Reason::kBadRequest, fmt::format("continue key is not valid{}", why));
}

}  // namespace

std::string EncodeContinue(const ContinueToken& token) {
  Json json = {{"v", "meta.k8s.io/v1"}, {"rv", token.revision}, {"start", token.start}};
  if (token.remaining) json["remaining"] = *token.remaining;
  return base::EncodeBase64Url(base::json::Dump(json));
}

base::StatusOr<ContinueToken> DecodeContinue(std::string_view text) {
  const auto bytes = text.size() <= 4096 ? base::DecodeBase64Url(text) : std::nullopt;
  const Json json = bytes ? base::json::Parse(*bytes).value_or(Json()) : Json();
  if (!json.is_object()) return InvalidContinueError("");
  if (base::json::String(json, {"v"}) != "meta.k8s.io/v1") {
    return InvalidContinueError(": server does not recognize this encoded version");
  }
  ContinueToken token{.revision = base::json::Int(json, {"rv"}),
                      .start = base::json::String(json, {"start"})};
  if (token.revision < ContinueToken::kNow || token.revision == 0) {
    return InvalidContinueError(
        ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
  }
  if (token.start.empty()) {
    return InvalidContinueError(": encoded start key empty (version meta.k8s.io/v1)");
  }
  const int64_t remaining = base::json::Int(json, {"remaining"}, -1);
  if (remaining > 0) token.remaining = remaining;
  return token;
}

}  // namespace berth::apiserver
