// Volumes that `berth io-proxy` shows as files, and this node's loop devices of those files.
//
// As LoopMappings; a mapping ends with both.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "block/images/loop_mappings.h"
#include "block/proxy/client.h"

namespace berth::block {

class ProxyMappings {
 public:
  // `store` tells one back end's images from another's; what `parts` borrows outlives this.
  ProxyMappings(const std::string& store, const BackendParts& parts);

  // The device that shows it, made if there is none. One whose daemon died is taken off first:
  // FAILED_PRECONDITION while something has it open, or while the volume is quarantined.
  base::StatusOr<Mapping> Map(const proxy::Volume& volume) const;
  base::StatusOr<std::optional<Mapping>> Find(const std::string& image) const;
  base::StatusOr<std::vector<Mapping>> All() const { return loops_.All(); }
  // DATA_LOSS: the daemon that the device reads and writes through is gone.
  base::Status Check(const Mapping& mapping) const;
  // To at least `size_bytes`, which the image has.
  base::StatusOr<Mapping> Refresh(const Mapping& mapping, int64_t size_bytes) const;
  base::Status Unmap(const Mapping& mapping) const;
  base::Status Force(const Mapping& mapping, std::chrono::milliseconds patience) const;

 private:
  const std::string node_;
  const proxy::Client client_;
  const LoopMappings loops_;
};

}  // namespace berth::block
