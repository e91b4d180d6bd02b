// Attaches a plugin's volumes to nodes, from the control plane: for plugins whose driver is called
// by the controllers themselves. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class VolumeAttacher {
 public:
  virtual ~VolumeAttacher() = default;

  // Returns the device on the node; empty if the driver names none. After a failure with an unknown
  // outcome, call it again or call Detach.
  virtual base::StatusOr<std::string> Attach(const VolumeSpec& spec, const api::NodeName& node) = 0;
  // `volume`: the PersistentVolume's name.
  virtual base::Status Detach(const api::VolumeName& volume, const api::NodeName& node) = 0;
  // UNIMPLEMENTED: the driver cannot tell; the volume may be attached.
  virtual base::StatusOr<bool> IsAttached(const VolumeSpec& spec, const api::NodeName& node) = 0;
  virtual base::Status ExpandVolume(const VolumeSpec& spec, int64_t new_bytes,
                                    int64_t old_bytes) = 0;
};

}  // namespace berth::volume
