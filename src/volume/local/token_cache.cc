#include "volume/local/token_cache.h"

#include <algorithm>

#include "api/time.h"
#include "base/log.h"

namespace berth::volume {
namespace {

using base::Json;
using base::StatusOr;
using std::chrono::hours;
using std::chrono::seconds;

constexpr int64_t kDefaultSeconds = 3600;

}  // namespace

StatusOr<TokenCache::Token> TokenCache::Request(const api::Pod& pod, const Key& key) {
  const auto& [uid, audience, lifetime] = key;
  const Json request = {
      {"apiVersion", "authentication.k8s.io/v1"},
      {"kind", "TokenRequest"},
      {"spec",
       {{"audiences", audience.empty() ? Json::array() : Json::array({audience})},
        {"expirationSeconds", lifetime},
        {"boundObjectRef",
         {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod.name()}, {"uid", uid}}}}}};
  const base::WallTime now = host_.clock().Now();
  ASSIGN_OR_RETURN(const Json answer,
                   host_.CreateToken(pod.ns(), pod.service_account_name(), request));
  Token token{.text = base::json::String(answer, {"status", "token"})};
  if (token.text.empty()) {
    return base::Error(base::StatusCode::kInternal, "token of service account {}: empty answer",
                       base::Quote(pod.service_account_name()));
  }
  const auto expires =
      api::ParseTime(base::json::String(answer, {"status", "expirationTimestamp"}));
  token.expires_at = expires.ok() ? *expires : now + seconds(lifetime);
  token.renew_at =
      now + std::min<base::WallTime::duration>((token.expires_at - now) / 5 * 4, hours(24));
  return token;
}

StatusOr<std::string> TokenCache::Get(const api::Pod& pod, const Json& source) {
  const Key key(pod.uid(), base::json::String(source, {"audience"}),
                base::json::Int(source, {"expirationSeconds"}, kDefaultSeconds));
  std::optional<Token> kept;
  {
    base::MutexLock lock(mutex_);
    if (const auto it = tokens_.find(key); it != tokens_.end()) kept = it->second;
  }
  const base::WallTime now = host_.clock().Now();
  if (kept && now < kept->renew_at) return kept->text;
  StatusOr<Token> fresh = Request(pod, key);
  if (!fresh.ok()) {
    if (!kept || now >= kept->expires_at) return fresh.status();
    LOG_WARNING("renew the token of pod {}: {}", base::Quote(pod.key()),
                base::ToString(fresh.status()));
    return kept->text;
  }
  base::MutexLock lock(mutex_);
  tokens_[key] = *fresh;
  return fresh->text;
}

void TokenCache::Forget(const std::string& pod_uid) {
  base::MutexLock lock(mutex_);
  std::erase_if(tokens_, [&](const auto& entry) { return std::get<0>(entry.first) == pod_uid; });
}

}  // namespace berth::volume
