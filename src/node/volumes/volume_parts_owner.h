// What the parts of the volume manager (volume_units.h, volume_in_use.h, volume_lookups.h) tell and
// ask each other through the one that owns them, so that none of them knows another's class.
//
// The owner implements it. All methods are thread-safe, quick, and called without the caller's lock
// unless they say otherwise.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "api/kinds/kinds.h"
#include "volume/volume_plugin.h"

namespace berth::node {

class VolumePartsOwner {
 public:
  // The state of the pod's volumes has changed.
  virtual void NotifyPod(const std::string& pod_uid) = 0;

  // What DevicesInUse() returns may have changed. `urgent`: a pod waits until the API lists the
  // device.
  virtual void ReportInUse(bool urgent) = 0;
  // The API lists the device in node.status.volumesInUse.
  virtual bool IsReportedInUse(const std::string& device_name) const = 0;
  // The device is unmounted from the node, also if its record was damaged.
  virtual void ForgetDamaged(const std::string& device_name) = 0;

  // The names that node.status.volumesInUse must hold.
  virtual std::set<std::string> DevicesInUse() const = 0;
  // The API took a new list of volumes in use: units that waited for that are tried now.
  virtual void RetryUnreported() = 0;

  // The unit's content follows the objects that the pod's volume names, until StopFollowing.
  virtual void FollowObjects(const std::string& unit, const api::Pod& pod,
                             const volume::VolumeSpec& spec) = 0;
  virtual void StopFollowing(const std::string& unit) = 0;

 protected:
  ~VolumePartsOwner() = default;
};

}  // namespace berth::node
