// What a pool records about a volume or snapshot, and the format of that record on disk.
//
//                     image made, synced               removal asked for
//   (none) ─▶ creating ───────────────────▶ ready ───────────────────────▶ deleting ─▶ (none)
//                │  crash: image and record                                    │ crash: goes on
//                └─ are removed at open                                        └─ at open
//
// Nothing outside the pool ever saw an image whose record says `creating`, so removing it is safe.
//
// The content of an image, which decides how it may be changed before a mount:
//
//   kRaw         a raw block volume: never probed, never formatted
//   kBlank       never written: may be formatted if a probe, too, finds nothing at all
//   kFormatting  mkfs began, and the file system was never mounted: it is emptied and formatted
//   kCopied      a copy of another image: its file system gets `fs_uuid` before its first mount
//   kFormatted   holds the file system `fs_uuid`: never formatted again, even after an empty probe
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::block {

enum class Kind { kVolume, kSnapshot };
enum class State { kCreating, kReady, kDeleting };
enum class Content { kRaw, kBlank, kFormatting, kCopied, kFormatted };
enum class AccessType { kMount, kBlock };

// "volume", "ready", "blank", "mount": as in records and messages.
std::string_view NameOf(Kind kind);
std::string_view NameOf(State state);
std::string_view NameOf(Content content);
std::string_view NameOf(AccessType access);

// Identifies the file of an image, because another file may come to have its name (from a restored
// backup, or from a mount over the pool folder). The device number is valid within one boot only.
struct ImageIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string boot_id;
};

struct Source {
  Kind kind = Kind::kVolume;
  std::string id;
  bool operator==(const Source&) const = default;
};

struct Record {
  Kind kind = Kind::kVolume;
  std::string id;    // random UUID
  std::string name;  // from the CSI request
  State state = State::kCreating;
  int64_t size_bytes = 0;
  base::WallTime created;
  AccessType access = AccessType::kMount;
  std::string fs_type;  // "ext4", "xfs", ...; empty for raw block
  Content content = Content::kBlank;
  std::string fs_uuid;            // the UUID that the file system has or will get
  bool grow_file_system = false;  // the image grew and the file system in it has not followed yet
  uint32_t sector_size = 0;  // of its first loop device, and of all later ones; 0: never mapped
  int64_t growing_from = 0;  // the old size while the image grows; else 0
  Source source;             // id empty: none; of a snapshot, the volume that it shows
  ImageIdentity image;
  std::string group;  // of a snapshot: the id of its group (pools/group_record.h); empty: none
  // For an inline volume, which ends with its pod: the path where the pod has it. Empty for other
  // volumes.
  std::string inline_target;
  // For an inline volume, what told the folder of all pods from others when the volume was made
  // (csidriver/pods_folder.h). Empty: it was not known.
  std::string pods_identity;
};

// Whether `text` has the form of the UUIDs that base::NewUuid makes. A volume id that comes from
// outside must pass this check before it becomes part of a path.
bool IsId(std::string_view text);

std::string Encode(const Record& record);
// DATA_LOSS for text that is not a whole record of this version.
base::StatusOr<Record> DecodeRecord(std::string_view text);

}  // namespace berth::block
