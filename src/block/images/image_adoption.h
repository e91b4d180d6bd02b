// `berth pool adopt` takes image files back after the folder that has them was copied or restored.
// This file has the parts that pools (pools/pool_adoption.h) and folders of images
// (ImageFolder::AdoptImages) share.
//
// A record knows its image by the file's inode, so that a file that merely has the image's name is
// never used. A copy of the whole folder has new inodes, and then every volume answers DATA_LOSS.
// An adoption compares each image with its record, and writes the new inode into the records of
// those that fit. It changes no image, and removes nothing.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "block/images/image.h"
#include "block/record.h"

namespace berth::block {

struct AdoptionStep {
  enum class Kind {
    kNone,    // the image is the recorded file
    kAdopt,   // another file that fits the record: the record gets its inode
    kRefuse,  // the file does not fit, or it is not known whether it does: the record stays
  };
  Kind kind = Kind::kNone;
  Record record;       // with kRefuse it may have only an id
  std::string detail;  // what was compared, or why it is refused
};

AdoptionStep RefuseAdoption(const Record& record, std::string why);

// Checks whether the file `path`, which is not the recorded one, can be the image, without reading
// its content. FAILED_PRECONDITION: it is missing, is no regular file, has another size, or a loop
// device of this machine shows it or the recorded file; the message says which.
base::StatusOr<struct stat> CheckAdoptable(const std::string& path, const Record& record,
                                           const PoolPlace& place);

}  // namespace berth::block
