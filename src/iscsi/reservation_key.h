// The keys by which persistent reservations tell nodes apart:
//
//   bits 63 to 20   digest of the owner and the node
//   bits 19 to 0    instance
//
// The owner is the uid of the StorageCluster, so that nodes of two Kubernetes clusters that have
// the same name do not take each other's volumes. Each process that serves a volume, and each
// session that it has to begin anew, has an instance of its own. So a process whose key is gone
// knows that it was fenced, even if its node serves the volume again by now.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace berth::iscsi {

// A node as keys name it: the upper 44 bits of its keys.
class NodeKeys {
 public:
  NodeKeys(std::string_view owner, std::string_view node);
  // The key of an instance, of which the lower 20 bits count. Never 0.
  uint64_t Make(uint32_t instance) const;
  // A key with a random instance that is none of `taken`.
  uint64_t MakeNew(const std::vector<uint64_t>& taken) const;
  bool Has(uint64_t key) const { return key >> 20 == prefix_; }

 private:
  uint64_t prefix_;
};

// The key that keeps the reservation of a volume that no node serves. Without it, any session could
// write, and so could one of a node that was fenced, if its commands were still on their way.
uint64_t GuardKey(std::string_view owner);

}  // namespace berth::iscsi
