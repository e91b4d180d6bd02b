// Takes back the images of a pool folder that was copied or restored (`berth pool adopt`).
//
// A record knows its image by the file's inode, so that the pool never uses a file that merely has
// the image's name. A copy of the whole folder has new inodes, and then every volume answers
// DATA_LOSS. An adoption compares each image with its record, and writes the new inode into the
// records of those that fit. It changes no image, and removes nothing.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "block/record.h"

namespace berth::block {

struct AdoptionStep {
  enum class Kind {
    kNone,    // the image is the recorded file
    kAdopt,   // another file that fits the record: the record gets its inode
    kRefuse,  // it does not fit, or it is not known whether it does: the record stays as it is
  };
  Kind kind = Kind::kNone;
  Record record;       // of kRefuse perhaps with an id and nothing else
  std::string detail;  // what was compared, or why it is refused
};

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
