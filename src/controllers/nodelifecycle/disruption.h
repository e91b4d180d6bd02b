// Decides by the number of nodes that are down in a zone how fast their pods may be evicted.
//
// If one node of many is down, the node has failed. If most nodes of a zone are down, the network
// or this controller has failed, and evicting pods would do more harm.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace berth::controllers::nodelifecycle {

enum class ZoneState { kNormal, kPartial, kFull };

struct ZoneCount {
  size_t ready = 0;
  size_t not_ready = 0;
};

// Full: no node is ready. Partial: more than two, and at least 55 % of them, are not.
ZoneState StateOf(const ZoneCount& zone);

// Nodes tainted for eviction per second in the zone; 0: none. `all_down`: no node of any zone is
// ready.
double EvictionRate(const ZoneCount& zone, bool all_down);

// Limits the evictions: each zone gets a token every 1/rate seconds, and saves one token at most.
// Not thread-safe.
class EvictionLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Takes the zone's token and returns zero, if there is one. Otherwise returns how long to wait
  // for it; negative: for ever, because the rate is 0.
  std::chrono::milliseconds TakeToken(const std::string& zone, double rate, Time now);
  // Puts the token back that was just taken, because it was not used.
  void GiveBack(const std::string& zone) { last_.erase(zone); }

 private:
  std::map<std::string, Time> last_;  // when the zone's last token was taken
};

}  // namespace berth::controllers::nodelifecycle
