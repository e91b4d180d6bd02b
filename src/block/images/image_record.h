// What a folder of images records about one image, and the format of that record on disk.
//
//                  content complete, synced        under its name          removal asked for
//   (none) ─▶ creating ──────────────────▶ placing ──────────────▶ ready ───────────────────┐
//                │                            │                                             ▼
//                │ crash: image and record    │ crash: completed,      (none) ◀───────── deleting
//                └─ are removed               └─ or removed if                              │
//                                                the image is not whole    crash: goes on ──┘
//
// After a crash, the next process that changes the image does what the drawing says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "block/backend.h"
#include "block/images/image.h"
#include "block/record.h"

namespace berth::block {

enum class ImageState { kCreating, kPlacing, kReady, kDeleting };

struct ImageRecord {
  std::string name;
  ImageState state = ImageState::kCreating;
  int64_t size_bytes = 0;
  int64_t made_bytes = 0;    // the size at creation; a repeated Create compares with it
  int64_t growing_from = 0;  // the old size while the image grows; else 0
  std::string source;        // the image or snapshot that it was copied from; empty: none
  std::string snapshot_of;   // of a snapshot: the image; else empty
  base::WallTime created;
  ImageIdentity identity;  // since kPlacing
  // UUID of a file system that mkfs is making in the image and that was never mounted; empty: none.
  std::string formatting;
  // UUID of the file system that mkfs made, since its first mount; of a copy, that of its source.
  // Empty: not known, because nothing was noted when the file system was made.
  std::string fs_uuid;

  ImageInfo ToInfo() const {
    return {.name = name, .size_bytes = size_bytes, .snapshot_of = snapshot_of};
  }
  // The form that the functions of block/images/image.h take.
  Record AsPoolRecord() const {
    Record record;
    record.name = name;
    record.size_bytes = size_bytes;
    record.growing_from = growing_from;
    record.image = identity;
    return record;
  }
};

// Whether the name may become part of paths and export names: lower-case letters, digits, '-' and
// '.', at most 253 bytes, beginning with a letter or digit.
bool IsImageName(std::string_view name);
// INVALID_ARGUMENT, with these rules in the message, if it is not an image name.
base::Status CheckImageName(std::string_view name);

std::string Encode(const ImageRecord& record);
// DATA_LOSS for text that is not a whole record of this version.
base::StatusOr<ImageRecord> DecodeImageRecord(std::string_view text);

}  // namespace berth::block
