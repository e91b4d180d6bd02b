// Takes back the images of a pool folder that was copied or restored (`berth pool adopt`).
// image_adoption.h says what an adoption does.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "block/images/image_adoption.h"

namespace berth::block {

// Compares the records of the pool in `folder` with its images, and changes nothing. Of volumes
// with a file system the type and UUID are compared, of all images the size. Refused are: an image
// that is missing, attached to a loop device, or whose recorded file still is; a record that cannot
// be read, or whose volume is being made or deleted. NOT_FOUND: there is no pool in the folder.
base::StatusOr<std::vector<AdoptionStep>> PlanAdoption(const std::string& folder);

// As PlanAdoption, and takes the steps of kAdopt. FAILED_PRECONDITION: a process has the pool open.
// If a record cannot be written, the records before it are adopted already; a repeated call goes
// on.
base::StatusOr<std::vector<AdoptionStep>> AdoptImages(const std::string& folder);

}  // namespace berth::block
