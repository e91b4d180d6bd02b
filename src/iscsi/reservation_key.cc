#include "iscsi/reservation_key.h"

#include <algorithm>
#include <random>
#include <string>

#include "base/sha256.h"

namespace berth::iscsi {
namespace {

constexpr int kSessions = 128;

uint64_t DigestName(const KeyOwner& owner, std::string_view node) {
  base::Sha256 digest;
  digest.Add(owner.text());
  digest.Add(std::string_view("\0", 1));
  digest.Add(node);
  return std::stoull(digest.FinishHex().substr(0, 10), nullptr, 16);  // 40 bits
}

}  // namespace

NodeKeys::NodeKeys(const KeyOwner& owner, std::string_view node)
    : prefix_(DigestName(owner, node)) {}

uint64_t NodeKeys::Make(uint16_t process, uint8_t session) const {
  const uint64_t key = prefix_ << 24 | uint64_t{process} << 8 | session;
  return FinishedKey(key) == 0 ? key | 2 : key;
}

uint64_t NodeKeys::MakeNew(const std::vector<uint64_t>& taken) const {
  std::random_device random;
  uint64_t key;
  do {
    key = Make(static_cast<uint16_t>(random()), static_cast<uint8_t>(random() | 1));
  } while (std::ranges::any_of(taken, [&](uint64_t other) { return IsSameProcess(other, key); }));
  return key;
}

uint64_t NodeKeys::MakeNext(uint64_t key, const std::vector<uint64_t>& taken) const {
  for (int i = 1; i < kSessions; ++i) {
    const uint64_t next = (key & ~uint64_t{0xff}) | ((key + 2 * static_cast<uint64_t>(i)) & 0xfe);
    const auto has = [&](uint64_t other) { return FinishedKey(other) == next; };
    if (next != 0 && std::ranges::none_of(taken, has)) return next | 1;
  }
  return MakeNew(taken);
}

NodeKeys GuardKeys(const KeyOwner& owner) { return {owner, ""}; }

}  // namespace berth::iscsi
