#include "iscsi/reservation_key.h"

#include <algorithm>
#include <random>
#include <string>

#include "base/sha256.h"

namespace berth::iscsi {
namespace {

constexpr uint32_t kInstanceMask = 0xfffff;
// No node has an empty name, so the guard's key is no node's.
constexpr std::string_view kGuard = "";
constexpr uint32_t kGuardInstance = 1;

uint64_t DigestName(std::string_view owner, std::string_view node) {
  base::Sha256 digest;
  digest.Add(owner);
  digest.Add(std::string_view("\0", 1));
  digest.Add(node);
  return std::stoull(digest.FinishHex().substr(0, 11), nullptr, 16);  // 44 bits
}

}  // namespace

NodeKeys::NodeKeys(std::string_view owner, std::string_view node)
    : prefix_(DigestName(owner, node)) {}

uint64_t NodeKeys::Make(uint32_t instance) const {
  const uint64_t key = prefix_ << 20 | (instance & kInstanceMask);
  return key == 0 ? 1 : key;
}

uint64_t NodeKeys::MakeNew(const std::vector<uint64_t>& taken) const {
  std::random_device random;
  uint64_t key;
  do {
    key = Make(random());
  } while (std::ranges::find(taken, key) != taken.end());
  return key;
}

uint64_t GuardKey(std::string_view owner) { return NodeKeys(owner, kGuard).Make(kGuardInstance); }

}  // namespace berth::iscsi
