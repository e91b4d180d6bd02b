// The calls of the CSI driver double: WorkingDriver answers them, and each switch that is on
// (csi_rules.h) breaks a rule.
//
// csi_double.cc does what is the same for every call (hanging, dying, error texts). Thread-safe.
#pragma once

#include <atomic>

#include "switches.h"
#include "working_driver.h"

namespace berth::doubles {

class WrongDriver {
 public:
  explicit WrongDriver(WorkingDriver& driver) : driver_(driver) {}

  template <typename Request, typename Response>
  base::Status Handle(const Switches::On& /*on*/, const Request& request, Response& response) {
    return driver_.Handle(request, response);
  }
#define BERTH_HANDLE(rpc)                                                           \
  base::Status Handle(const Switches::On& on, const csi::v1::rpc##Request& request, \
                      csi::v1::rpc##Response& response)
  BERTH_HANDLE(GetPluginInfo);
  BERTH_HANDLE(GetPluginCapabilities);
  BERTH_HANDLE(Probe);
  BERTH_HANDLE(CreateVolume);
  BERTH_HANDLE(DeleteVolume);
  BERTH_HANDLE(ControllerPublishVolume);
  BERTH_HANDLE(ControllerUnpublishVolume);
  BERTH_HANDLE(ValidateVolumeCapabilities);
  BERTH_HANDLE(ListVolumes);
  BERTH_HANDLE(GetCapacity);
  BERTH_HANDLE(ControllerExpandVolume);
  BERTH_HANDLE(CreateSnapshot);
  BERTH_HANDLE(ListSnapshots);
  BERTH_HANDLE(NodeGetInfo);
  BERTH_HANDLE(NodeGetCapabilities);
  BERTH_HANDLE(NodeStageVolume);
  BERTH_HANDLE(NodeUnstageVolume);
  BERTH_HANDLE(NodePublishVolume);
  BERTH_HANDLE(NodeUnpublishVolume);
  BERTH_HANDLE(NodeGetVolumeStats);
  BERTH_HANDLE(NodeExpandVolume);
#undef BERTH_HANDLE

 private:
  base::Status PublishWrongly(const Switches::On& on,
                              const csi::v1::NodePublishVolumeRequest& request);
  std::string Next() { return std::to_string(++count_); }

  WorkingDriver& driver_;
  std::atomic<int> count_ = 0;
};

}  // namespace berth::doubles
