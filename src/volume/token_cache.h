// Keeps the service account tokens of pods until most of their lifetime is over. So a volume that
// is set up again asks the API for a token, and changes a file, only when that is necessary.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

struct ServiceToken {
  std::string text;
  std::string expiration;  // as the API wrote it
};

class TokenCache {
 public:
  // `host` is borrowed and outlives it.
  explicit TokenCache(Host& host) : host_(host) {}

  // Returns a token of the pod's service account for an audience ("": the API server's own), bound
  // to the pod. `lifetime_seconds` 0: the API server's default. The cache requests a new token
  // after 80% of the lifetime, or after a day if that is earlier. If the request fails, the cache
  // returns the old token until it expires, and after that the error of the request. INTERNAL: the
  // API's answer has no token.
  base::StatusOr<ServiceToken> GetToken(const api::Pod& pod, const std::string& audience,
                                        int64_t lifetime_seconds);

  // Forgets the tokens of a pod. Call this when a volume of the pod is torn down; the pod's other
  // volumes then ask the API again.
  void ForgetTokens(const api::PodUid& pod);

 private:
  using Key = std::tuple<api::PodUid, std::string, int64_t>;  // pod, audience, seconds
  struct Kept {
    ServiceToken token;
    base::WallTime renew_at;
    base::WallTime expires_at;
  };

  base::StatusOr<Kept> RequestToken(const api::Pod& pod, const Key& key);

  Host& host_;
  base::Mutex mutex_;
  std::map<Key, Kept> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
