// Whether writes that a target has answered, but that were not flushed since, may be lost because
// the target lost power or was reset inside. A flush that comes later would succeed without them.
//
// A target tells by a unit attention, or by its count of registrations, which begins at 0 after a
// power loss (SPC-4, 6.15.2). "Power on, reset, or bus device reset occurred" alone proves nothing:
// many targets greet each new session with it, and report a reset of the logical unit by it, as a
// fence of a volume that several nodes share sends one, which loses no data.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace berth::iscsi {

class CacheWatch {
 public:
  // `resets_happen`: others may reset the logical unit while this node uses it. `is_volatile`: the
  // target has a write cache, or does not tell.
  CacheWatch(bool resets_happen, bool is_volatile)
      : resets_happen_(resets_happen), volatile_(is_volatile) {}

  void OnWritten() { ++written_; }
  // What a flush that is sent now makes durable. Give it to OnFlushed after its success.
  uint64_t OnFlushSent() const { return written_; }
  void OnFlushed(uint64_t sent) { flushed_ = std::max(flushed_, sent); }

  // `code`: additional sense code and qualifier. `greets`: it may be the greeting of a new session.
  void OnAttention(uint16_t code, bool greets) {
    constexpr uint16_t kSomeReset = 0x2900, kPowerOn = 0x2901, kInternalReset = 0x2904;
    if (code == kSomeReset && (greets || resets_happen_)) return;
    if (code == kSomeReset || code == kPowerOn || code == kInternalReset) LoseCache();
  }
  // Keys::generation.
  void OnGeneration(uint32_t generation) {
    if (generation < generation_) LoseCache();
    generation_ = generation;
  }

  // Whether writes were lost. It stays so, because nobody can tell which.
  bool lost() const { return lost_; }

 private:
  void LoseCache() { lost_ |= volatile_ && written_ != flushed_; }

  const bool resets_happen_;
  const bool volatile_;
  uint64_t written_ = 0, flushed_ = 0;
  uint32_t generation_ = 0;
  bool lost_ = false;
};

}  // namespace berth::iscsi
