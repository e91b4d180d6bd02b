// Volumes that `berth io-proxy` shows as files, and this node's loop devices of those files.
//
// The calls do what those of LoopMappings do. Unmap detaches the loop device and ends the export of
// the volume.
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
  // `store` distinguishes the images of different back ends. What `parts` borrows must outlive this
  // object.
  ProxyMappings(const std::string& store, const BackendParts& parts);

  // Gives the device that shows the volume, and makes one if there is none. A device whose daemon
  // died is detached first. FAILED_PRECONDITION: something has that device open, or the volume is
  // quarantined.
  base::StatusOr<Mapping> Map(const proxy::Volume& volume) const;
  base::StatusOr<std::optional<Mapping>> Find(const std::string& image) const;
  base::StatusOr<std::vector<Mapping>> ListMappings() const { return loops_.ListMappings(); }
  // DATA_LOSS: the daemon that the device reads and writes through is gone. Other errors come from
  // the I/O proxy.
  base::Status Check(const Mapping& mapping) const;
  // Grows the device to at least `size_bytes`, the size of the image.
  base::StatusOr<Mapping> Refresh(const Mapping& mapping, int64_t size_bytes) const;
  base::Status Unmap(const Mapping& mapping) const;
  // Backend::EndUnshown. FAILED_PRECONDITION, only without force: a device shows the volume.
  base::Status EndUnshown(const std::string& image,
                          std::optional<std::chrono::milliseconds> force_within) const;
  // OK only once the daemon has ended, as the I/O proxy says.
  base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds patience) const;

 private:
  const std::string node_;
  const bool has_proxy_;
  const proxy::Client client_;
  const LoopMappings loops_;
};

}  // namespace berth::block
