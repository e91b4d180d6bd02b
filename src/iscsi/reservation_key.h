// The keys by which persistent reservations tell nodes apart:
//
//   bits 63 to 24   digest of the owner and the node; the guard is a node without a name
//   bits 23 to 8    process
//   bits 7 to 1     session
//   bit 0           unfinished: who registered it has not ended what it began
//
// The owner names the Kubernetes cluster, or one volume of it, so that nodes of two clusters that
// have the same name do not take each other's volumes. Each process that serves a volume has keys
// of its own, so a process whose key is gone knows that it was fenced, even if its node serves the
// volume again by now. It has another session each time that the target counts it as a new one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/id.h"

namespace berth::iscsi {

// The owner, as keys name it. It has a type, so that it is not taken for a node or an initiator.
using KeyOwner = base::Id<struct KeyOwnerKind>;

// A node as keys name it.
class NodeKeys {
 public:
  NodeKeys(const KeyOwner& owner, std::string_view node);
  // Never 0.
  uint64_t Make(uint16_t process, uint8_t session) const;
  // An unfinished key of a random process that has none of `taken`.
  uint64_t MakeNew(const std::vector<uint64_t>& taken) const;
  // An unfinished key of the same process, with a session that has none of `taken`.
  uint64_t MakeNext(uint64_t key, const std::vector<uint64_t>& taken) const;
  bool Has(uint64_t key) const { return key >> 24 == prefix_; }

 private:
  uint64_t prefix_;
};

// The guard's keys keep the reservation of a volume that no node serves. Without it, any session
// could write, and so could one of a node that was fenced, if its commands were still on their way.
// Each time that the guard gets a volume, it has another key.
NodeKeys GuardKeys(const KeyOwner& owner);

inline bool IsUnfinished(uint64_t key) { return (key & 1) != 0; }
inline uint64_t FinishedKey(uint64_t key) { return key & ~uint64_t{1}; }
inline bool IsSameProcess(uint64_t a, uint64_t b) { return a >> 8 == b >> 8; }

}  // namespace berth::iscsi
