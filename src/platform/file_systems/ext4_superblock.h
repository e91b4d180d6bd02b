// Reads from an ext4 superblock whether the file system was left clean.
#pragma once

#include <cstdint>
#include <span>

namespace berth::platform {

// On disk the superblock begins 1 KiB into the device and is 1 KiB long.
inline constexpr long kExt4SuperblockOffset = 1024;
inline constexpr size_t kExt4SuperblockBytes = 1024;

// Offsets and values of the fields that more than one reader needs (the kernel's documentation,
// "ext4: Super Block").
namespace ext4 {
inline constexpr size_t kMagic = 0x38, kRevision = 0x4C, kIncompatible = 0x60,
                        kReadOnlyCompatible = 0x64;
inline constexpr uint32_t kMagicNumber = 0xEF53;
inline constexpr uint32_t kMetadataChecksums = 0x400;  // compatible to read
}  // namespace ext4

// Whether e2fsck -p would read this superblock and do nothing: its checksum is right, and the file
// system was unmounted cleanly, with no journal to replay, no orphans, no recorded error and no
// check due. `now` is in seconds since 1970. False in all other cases: then run e2fsck.
bool Ext4NeedsNoCheck(std::span<const unsigned char, kExt4SuperblockBytes> superblock,
                      long long now);

}  // namespace berth::platform
