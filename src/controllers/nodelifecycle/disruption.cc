#include "controllers/nodelifecycle/disruption.h"

namespace berth::controllers::nodelifecycle {

namespace {

constexpr double kUnhealthyShare = 0.55;
constexpr size_t kLargeZone = 50;  // in a smaller zone that is partly down, nothing is evicted
constexpr double kRate = 0.1;
constexpr double kSlowRate = 0.01;

}  // namespace

ZoneState StateOf(const ZoneCount& zone) {
  if (zone.ready == 0 && zone.not_ready > 0) return ZoneState::kFull;
  const auto all = static_cast<double>(zone.ready + zone.not_ready);
  if (zone.not_ready > 2 && static_cast<double>(zone.not_ready) >= kUnhealthyShare * all) {
    return ZoneState::kPartial;
  }
  return ZoneState::kNormal;
}

double EvictionRate(const ZoneCount& zone, bool all_down) {
  if (all_down) return 0;
  if (StateOf(zone) != ZoneState::kPartial) return kRate;
  return zone.ready + zone.not_ready > kLargeZone ? kSlowRate : 0;
}

std::chrono::milliseconds EvictionLimiter::TakeToken(const std::string& zone, double rate,
                                                     Time now) {
  if (rate <= 0) return std::chrono::milliseconds(-1);
  const auto interval = std::chrono::milliseconds(static_cast<int64_t>(1000 / rate));
  const auto [last, first] = last_.try_emplace(zone, now);
  if (first) return {};
  const auto next = last->second + interval;
  if (next > now) return std::chrono::ceil<std::chrono::milliseconds>(next - now);
  last->second = now;
  return {};
}

}  // namespace berth::controllers::nodelifecycle
