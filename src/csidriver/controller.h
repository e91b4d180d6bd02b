// Implements the CSI controller service: checks each request and runs it on the pool.
//
// Thread-safe. `pool` and `offer` are borrowed and must outlive the object. Failures have the codes
// that the CSI specification prescribes.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "csidriver/validate.h"
#include "proto/csi.pb.h"

namespace berth::csidriver {

class Controller {
 public:
  Controller(block::Pool& pool, const Offer& offer) : pool_(pool), offer_(offer) {}

#define BERTH_DECLARE(method) \
  base::StatusOr<csi::v1::method##Response> method(const csi::v1::method##Request& request)
  BERTH_DECLARE(CreateVolume);
  BERTH_DECLARE(DeleteVolume);
  BERTH_DECLARE(ValidateVolumeCapabilities);
  BERTH_DECLARE(ListVolumes);
  BERTH_DECLARE(GetCapacity);
  BERTH_DECLARE(ControllerGetCapabilities);
  BERTH_DECLARE(CreateSnapshot);
  BERTH_DECLARE(DeleteSnapshot);
  BERTH_DECLARE(ListSnapshots);
  BERTH_DECLARE(ControllerExpandVolume);
  BERTH_DECLARE(ControllerGetVolume);
#undef BERTH_DECLARE

 private:
  csi::v1::Volume DescribeVolume(const block::Record& record) const;
  csi::v1::VolumeCondition CheckCondition(const block::Record& record) const;

  block::Pool& pool_;
  const Offer& offer_;
};

void SetTimestamp(base::WallTime time, google::protobuf::Timestamp& timestamp);
csi::v1::Snapshot DescribeSnapshot(const block::Record& record);

// Makes one page of `records`, which are ordered by id: those after `token` ("": from the start),
// at most `max_entries` (0: as many as a reply holds). A token is the id of the last entry of the
// page before, and stays valid when that entry is deleted. Sets `next` if more records follow.
// ABORTED: the token does not have the form of an id.
base::StatusOr<std::vector<block::Record>> MakePage(std::vector<block::Record> records,
                                                    int32_t max_entries, const std::string& token,
                                                    std::string& next);

}  // namespace berth::csidriver
