#include "http/arrivals.h"

#include <algorithm>

namespace berth::http {

void Arrivals::Fill(Bucket& bucket, Time now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.since).count();
  bucket.tokens = std::min(bucket.tokens + seconds * limits_.per_second, limits_.burst);
  bucket.since = now;
}

bool Arrivals::Admit(const std::string& key, Time now) {
  Bucket& bucket = buckets_.try_emplace(key, limits_.burst, now).first->second;
  Fill(bucket, now);
  if (bucket.tokens < 1) return false;
  --bucket.tokens;
  return true;
}

void Arrivals::Refund(const std::string& key) {
  const auto found = buckets_.find(key);
  if (found != buckets_.end()) ++found->second.tokens;
}

void Arrivals::ForgetFull(Time now) {
  std::erase_if(buckets_, [&](const auto& entry) {
    Bucket bucket = entry.second;
    Fill(bucket, now);
    return bucket.tokens >= limits_.burst;
  });
}

}  // namespace berth::http
