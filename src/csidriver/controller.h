// Does the work of the controller service: checks requests and turns them into work on the pool.
//
// Thread-safe; everything is borrowed. Failures carry CSI's codes.
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
  csi::v1::Volume Describe(const block::Record& record) const;
  csi::v1::VolumeCondition Condition(const block::Record& record) const;

  block::Pool& pool_;
  const Offer& offer_;
};

// One page of `records`, which are ordered by id: those after `token`, at most `max_entries` (0: as
// many as a reply holds). A token is the id of the last entry of the page before, and stays valid
// when that entry is deleted. Sets `next` if more follow. ABORTED: the token was never given out.
base::StatusOr<std::vector<block::Record>> Page(std::vector<block::Record> records,
                                                int32_t max_entries, const std::string& token,
                                                std::string& next);

}  // namespace berth::csidriver
