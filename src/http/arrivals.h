// Bounds how many connections one client opens in a time, because each costs processor time, and a
// TLS handshake much of it, before the server knows who the client is.
//
// Each client has a bucket of tokens, which fills at a steady rate. A connection takes one, and
// gets it back when its client has shown that it is a user, whose own bucket is charged instead.
// Not thread-safe; pure.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

namespace berth::http {

struct ArrivalLimits {
  double per_second = 100;
  double burst = 100;
};

class Arrivals {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Arrivals(const ArrivalLimits& limits) : limits_(limits) {}

  // Takes a token of `key`. False: there is none.
  bool Admit(const std::string& key, Time now);
  // Gives a token back.
  void Refund(const std::string& key);
  // Forgets the buckets that are full. Call it from time to time.
  void ForgetFull(Time now);

 private:
  struct Bucket {
    double tokens;
    Time since;  // `tokens` is of this time
  };
  void Fill(Bucket& bucket, Time now) const;

  const ArrivalLimits limits_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace berth::http
