// Implements the CSI group controller service: snapshots of several volumes, taken at one moment.
//
// Thread-safe. `pool` is borrowed and must outlive the object. Failures have the codes that the CSI
// specification prescribes.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

class GroupController {
 public:
  explicit GroupController(block::Pool& pool) : pool_(pool) {}

#define BERTH_DECLARE(method) \
  base::StatusOr<csi::v1::method##Response> method(const csi::v1::method##Request& request)
  BERTH_DECLARE(GroupControllerGetCapabilities);
  BERTH_DECLARE(CreateVolumeGroupSnapshot);
  BERTH_DECLARE(DeleteVolumeGroupSnapshot);
  BERTH_DECLARE(GetVolumeGroupSnapshot);
#undef BERTH_DECLARE

 private:
  base::StatusOr<csi::v1::VolumeGroupSnapshot> DescribeGroup(const block::GroupRecord& group) const;

  block::Pool& pool_;
};

}  // namespace berth::csidriver
