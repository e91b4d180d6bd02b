// How many nodes of a zone are down, and how fast their pods may therefore be evicted. Pure.
//
// One dead node among many is that node's failure. Most nodes of a zone down is the network's, or
// this controller's; then evicting pods would add harm to harm.
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

// A token every 1/rate seconds, of which one at most is saved up. Not thread-safe.
class EvictionLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Takes the zone's token if there is one: zero. Otherwise how long to wait for it; negative: for
  // ever, as the rate is 0.
  std::chrono::milliseconds Take(const std::string& zone, double rate, Time now);
  // The token that was just taken was of no use.
  void GiveBack(const std::string& zone) { last_.erase(zone); }

 private:
  std::map<std::string, Time> last_;  // when the zone's last token was taken
};

}  // namespace berth::controllers::nodelifecycle
