#include "platform/file_systems/ext4_superblock.h"

#include <boost/crc.hpp>
#include <boost/endian/conversion.hpp>
#include <cstdint>

namespace berth::platform {
namespace {

using Bytes = std::span<const unsigned char, kExt4SuperblockBytes>;

// Offsets of the fields, which are little-endian (the kernel's documentation, "ext4: Super Block").
constexpr size_t kMountCount = 0x34, kMaxMountCount = 0x36, kState = 0x3A, kLastCheck = 0x40,
                 kCheckInterval = 0x44, kLastOrphan = 0xE8, kErrorCount = 0x194, kChecksum = 0x3FC;

constexpr uint32_t kValid = 1;  // the only bit of the state that a clean file system has
constexpr uint32_t kNeedsRecovery = 0x4, kJournalDevice = 0x8;
constexpr uint32_t kOrphansPresent = 0x10000;

uint32_t Get16(Bytes bytes, size_t at) { return boost::endian::load_little_u16(bytes.data() + at); }
uint32_t Get32(Bytes bytes, size_t at) { return boost::endian::load_little_u32(bytes.data() + at); }

bool ChecksumHolds(Bytes bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0, true, true> crc32c;
  crc32c.process_bytes(bytes.data(), kChecksum);
  return crc32c.checksum() == Get32(bytes, kChecksum);
}

bool CheckIsDue(Bytes bytes, long long now) {
  const uint32_t max_mounts = Get16(bytes, kMaxMountCount);  // 0xFFFF and 0: never
  if (max_mounts != 0 && max_mounts < 0x8000 && Get16(bytes, kMountCount) >= max_mounts) {
    return true;
  }
  const uint32_t interval = Get32(bytes, kCheckInterval);
  const long long last = Get32(bytes, kLastCheck);
  return interval != 0 && (now < last || now - last >= interval);
}

}  // namespace

bool Ext4NeedsNoCheck(Bytes superblock, long long now) {
  const uint32_t features = Get32(superblock, ext4::kReadOnlyCompatible);
  return Get16(superblock, ext4::kMagic) == ext4::kMagicNumber &&
         Get32(superblock, ext4::kRevision) >= 1 &&
         // Without a checksum a torn superblock looks like a whole one.
         (features & ext4::kMetadataChecksums) != 0 && ChecksumHolds(superblock) &&
         Get16(superblock, kState) == kValid &&
         (Get32(superblock, ext4::kIncompatible) & (kNeedsRecovery | kJournalDevice)) == 0 &&
         (features & kOrphansPresent) == 0 && Get32(superblock, kLastOrphan) == 0 &&
         Get32(superblock, kErrorCount) == 0 && !CheckIsDue(superblock, now);
}

}  // namespace berth::platform
