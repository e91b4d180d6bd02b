// Service account tokens of projected volumes, kept until most of their life is over, so that a
// set-up that is repeated changes the file only when it has to. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

class TokenCache {
 public:
  // `host` is borrowed and outlives it.
  explicit TokenCache(Host& host) : host_(host) {}

  // A token for a projected source's serviceAccountToken {audience, expirationSeconds}, bound to
  // the pod. It is asked for anew after 80% of its life, or a day; while that fails, the old one
  // serves until its end.
  base::StatusOr<std::string> Get(const api::Pod& pod, const base::Json& source);

  // Forgets the tokens of a pod.
  void Forget(const std::string& pod_uid);

 private:
  using Key = std::tuple<std::string, std::string, int64_t>;  // pod UID, audience, seconds
  struct Token {
    std::string text;
    base::WallTime renew_at;
    base::WallTime expires_at;
  };

  base::StatusOr<Token> Request(const api::Pod& pod, const Key& key);

  Host& host_;
  base::Mutex mutex_;
  std::map<Key, Token> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
