// The interface through which the parts of the volume manager (volume_units.h, volume_in_use.h,
// volume_lookups.h) call each other, so that no part depends on the class of another.
//
// The volume manager owns the parts and implements it. All methods are thread-safe and quick. They
// are called while the caller holds no lock.
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

  // The result of DevicesInUse() may have changed. `urgent`: a pod waits until the API lists the
  // device.
  virtual void ReportInUse(bool urgent) = 0;
  // The API lists the device in node.status.volumesInUse.
  virtual bool IsReportedInUse(const std::string& device_name) const = 0;
  // The device is unmounted from the node, also if its record was damaged.
  virtual void ForgetDamaged(const std::string& device_name) = 0;

  // The names that node.status.volumesInUse must hold.
  virtual std::set<std::string> DevicesInUse() const = 0;
  // The API has accepted a new list of volumes in use: units that waited for that are tried now.
  virtual void RetryUnreported() = 0;

  // Watches the API objects that the pod's volume shows, and refreshes the unit when one changes,
  // until StopFollowing.
  virtual void FollowObjects(const std::string& unit, const api::Pod& pod,
                             const volume::VolumeSpec& spec) = 0;
  virtual void StopFollowing(const std::string& unit) = 0;

 protected:
  ~VolumePartsOwner() = default;
};

}  // namespace berth::node
