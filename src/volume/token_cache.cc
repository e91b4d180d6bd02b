#include "volume/token_cache.h"

#include <algorithm>
#include <optional>

#include "api/time.h"
#include "base/log.h"

namespace berth::volume {
namespace {

using base::Json;
using base::StatusOr;
using std::chrono::hours;
using std::chrono::seconds;

// The API server's default lifetime.
constexpr int64_t kDefaultSeconds = 3600;

}  // namespace

StatusOr<TokenCache::Kept> TokenCache::RequestToken(const api::Pod& pod, const Key& key) {
  const auto& [uid, audience, lifetime] = key;
  Json spec = {
      {"audiences", audience.empty() ? Json::array() : Json::array({audience})},
      {"boundObjectRef",
       {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod.name()}, {"uid", uid.text()}}}};
  if (lifetime != 0) spec["expirationSeconds"] = lifetime;
  const Json request = {{"apiVersion", "authentication.k8s.io/v1"},
                        {"kind", "TokenRequest"},
                        {"spec", std::move(spec)}};
  const base::WallTime now = host_.clock().Now();
  ASSIGN_OR_RETURN(const Json answer,
                   host_.CreateToken(pod.ns(), pod.service_account_name(), request));
  Kept kept;
  kept.token = {.text = base::json::String(answer, {"status", "token"}),
                .expiration = base::json::String(answer, {"status", "expirationTimestamp"})};
  if (kept.token.text.empty()) {
    return base::Error(base::StatusCode::kInternal,
                       "request a token of service account {}: the API's answer has no token",
                       base::Quote(pod.service_account_name()));
  }
  const auto expires = api::ParseTime(kept.token.expiration);
  kept.expires_at =
      expires.ok() ? *expires : now + seconds(lifetime != 0 ? lifetime : kDefaultSeconds);
  kept.renew_at =
      now + std::min<base::WallTime::duration>((kept.expires_at - now) / 5 * 4, hours(24));
  return kept;
}

StatusOr<ServiceToken> TokenCache::GetToken(const api::Pod& pod, const std::string& audience,
                                            int64_t lifetime_seconds) {
  const Key key(api::PodUid(pod.uid()), audience, lifetime_seconds);
  std::optional<Kept> kept;
  {
    base::MutexLock lock(mutex_);
    if (const auto it = tokens_.find(key); it != tokens_.end()) kept = it->second;
  }
  const base::WallTime now = host_.clock().Now();
  if (kept && now < kept->renew_at) return kept->token;
  StatusOr<Kept> fresh = RequestToken(pod, key);
  if (!fresh.ok()) {
    if (!kept || now >= kept->expires_at) return fresh.status();
    LOG_WARNING("a token of pod {} cannot be renewed, so the old one is used on: {}",
                base::Quote(pod.key()), base::ToString(fresh.status()));
    return kept->token;
  }
  base::MutexLock lock(mutex_);
  tokens_[key] = *fresh;
  return fresh->token;
}

void TokenCache::ForgetTokens(const api::PodUid& pod) {
  base::MutexLock lock(mutex_);
  std::erase_if(tokens_, [&](const auto& entry) { return std::get<0>(entry.first) == pod; });
}

}  // namespace berth::volume
