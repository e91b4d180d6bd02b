#include "platform/walks/ext4_inodes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/endian/conversion.hpp>
#include <cerrno>
#include <optional>
#include <vector>

#include "platform/errno.h"
#include "platform/file_systems/ext4_superblock.h"

namespace berth::platform {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// Offsets and values from the kernel's documentation, "ext4 Data Structures and Algorithms". All
// numbers are little-endian.
namespace super {
constexpr size_t kInodes = 0x00, kBlocksLow = 0x04, kFirstDataBlock = 0x14, kLogBlockSize = 0x18,
                 kBlocksPerGroup = 0x20, kInodesPerGroup = 0x28, kFirstInode = 0x54,
                 kInodeSize = 0x58, kDescriptorSize = 0xFE, kBlocksHigh = 0x150;
// Fields that name the file system's own inodes among those of files: the quotas of users, groups
// and projects, and the list of orphans.
constexpr std::array<size_t, 4> kHidden = {0x240, 0x244, 0x26C, 0x280};
}  // namespace super
constexpr uint32_t kMetaBlockGroups = 0x10, k64Bit = 0x80;  // incompatible
constexpr uint32_t kDescriptorChecksums = 0x10;             // compatible to read

namespace descriptor {
constexpr size_t kTableLow = 0x08, kFlags = 0x12, kUnusedLow = 0x1C, kTableHigh = 0x28,
                 kUnusedHigh = 0x32;
constexpr uint16_t kInodesUninitialised = 0x1;
}  // namespace descriptor

namespace inode {
constexpr size_t kMode = 0x00, kGroupLow = 0x18, kLinks = 0x1A, kFlags = 0x20, kGroupHigh = 0x7A;
constexpr uint32_t kExtendedAttribute = 0x200000;  // the value of one, too large for its inode
}  // namespace inode

constexpr size_t kMostDescriptorBytes = 64 << 20;  // of a file system of 128 TiB
constexpr size_t kChunk = 256 * 1024;

using Bytes = std::vector<unsigned char>;

uint16_t Get16(const unsigned char* at) { return boost::endian::load_little_u16(at); }
uint32_t Get32(const unsigned char* at) { return boost::endian::load_little_u32(at); }

Status ReadAt(int device, uint64_t offset, Bytes& into) {
  for (size_t done = 0; done < into.size();) {
    const ssize_t size =
        pread(device, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return ErrnoError(size == 0 ? EIO : errno, "read ext4's metadata");
    done += static_cast<size_t>(size);
  }
  return base::OkStatus();
}

struct Layout {
  uint64_t block_size, groups, inodes, inodes_per_group, inode_size, first_inode;
  uint64_t descriptors_at;  // bytes
  size_t descriptor_size;
  bool unused_is_known;  // descriptors say which inodes were never used
  std::array<uint64_t, super::kHidden.size()> hidden;
};

// Reads the layout of a device of `size` bytes.
std::optional<Layout> ParseLayout(const Bytes& bytes, uint64_t size) {
  const auto at16 = [&](size_t at) { return Get16(bytes.data() + at); };
  const auto at32 = [&](size_t at) -> uint64_t { return Get32(bytes.data() + at); };
  const uint64_t features = at32(ext4::kIncompatible);
  const uint64_t log_block_size = at32(super::kLogBlockSize);  // of KiB
  if (at16(ext4::kMagic) != ext4::kMagicNumber || log_block_size > 6 ||
      (features & kMetaBlockGroups) != 0) {
    return std::nullopt;
  }
  const uint64_t block_size = 1024ULL << log_block_size;
  const bool wide = (features & k64Bit) != 0;
  const bool dynamic = at32(ext4::kRevision) >= 1;
  const uint64_t first_block = at32(super::kFirstDataBlock);
  const uint64_t blocks = at32(super::kBlocksLow) | (wide ? at32(super::kBlocksHigh) << 32 : 0);
  const uint64_t per_group = at32(super::kBlocksPerGroup);
  if (per_group == 0 || blocks <= first_block || blocks > size / block_size) return std::nullopt;
  Layout layout = {
      .block_size = block_size,
      .groups = (blocks - first_block + per_group - 1) / per_group,
      .inodes = at32(super::kInodes),
      .inodes_per_group = at32(super::kInodesPerGroup),
      .inode_size = dynamic ? at16(super::kInodeSize) : 128U,
      .first_inode = dynamic ? at32(super::kFirstInode) : 11,
      .descriptors_at = (first_block + 1) * block_size,
      .descriptor_size = wide ? at16(super::kDescriptorSize) : size_t{32},
      .unused_is_known = (at32(ext4::kReadOnlyCompatible) &
                          (kDescriptorChecksums | ext4::kMetadataChecksums)) != 0,
      .hidden = {},
  };
  std::transform(super::kHidden.begin(), super::kHidden.end(), layout.hidden.begin(), at32);
  const bool sound =
      std::has_single_bit(layout.inode_size) && layout.inode_size >= 128 &&
      layout.inode_size <= block_size && layout.inodes_per_group > 0 &&
      layout.inodes_per_group <= 8 * block_size && std::has_single_bit(layout.descriptor_size) &&
      layout.descriptor_size >= (wide ? 64 : 32) && layout.descriptor_size <= block_size &&
      layout.inodes == layout.groups * layout.inodes_per_group &&
      layout.groups * layout.descriptor_size <= kMostDescriptorBytes;
  return sound ? std::optional(layout) : std::nullopt;
}

// The used part of a group's inode table.
struct Table {
  uint64_t first_inode = 0;
  uint64_t at = 0;  // bytes
  uint64_t inodes = 0;
};

StatusOr<std::vector<Table>> ReadTables(int device, const Layout& layout) {
  Bytes bytes(layout.groups * layout.descriptor_size);
  RETURN_IF_ERROR(ReadAt(device, layout.descriptors_at, bytes));
  std::vector<Table> tables;
  for (uint64_t group = 0; group < layout.groups; ++group) {
    const unsigned char* const at = bytes.data() + group * layout.descriptor_size;
    uint64_t block = Get32(at + descriptor::kTableLow);
    uint64_t unused = Get16(at + descriptor::kUnusedLow);
    if (layout.descriptor_size >= 64) {
      block |= uint64_t{Get32(at + descriptor::kTableHigh)} << 32;
      unused |= uint64_t{Get16(at + descriptor::kUnusedHigh)} << 16;
    }
    if (!layout.unused_is_known) {
      unused = 0;
    } else if ((Get16(at + descriptor::kFlags) & descriptor::kInodesUninitialised) != 0) {
      unused = layout.inodes_per_group;
    }
    if (unused >= layout.inodes_per_group) continue;
    tables.push_back({.first_inode = group * layout.inodes_per_group + 1,
                      .at = block * layout.block_size,
                      .inodes = layout.inodes_per_group - unused});
  }
  return tables;
}

bool MayHaveAName(const Layout& layout, uint64_t number, const unsigned char* raw) {
  if (number < layout.first_inode && number != kExt4RootInode) return false;
  if (Get16(raw + inode::kLinks) == 0 ||
      (Get32(raw + inode::kFlags) & inode::kExtendedAttribute) != 0) {
    return false;
  }
  return std::find(layout.hidden.begin(), layout.hidden.end(), number) == layout.hidden.end();
}

// False: `visit` returned false.
StatusOr<bool> ReadTable(int device, const Layout& layout, const Table& table, Bytes& chunk,
                         const std::function<bool(const InodeOwner&)>& visit) {
  const uint64_t at_once = kChunk / layout.inode_size;
  for (uint64_t done = 0; done < table.inodes;) {
    const uint64_t count = std::min(at_once, table.inodes - done);
    chunk.resize(count * layout.inode_size);
    RETURN_IF_ERROR(ReadAt(device, table.at + done * layout.inode_size, chunk));
    for (uint64_t i = 0; i < count; ++i) {
      const unsigned char* const raw = chunk.data() + i * layout.inode_size;
      const uint64_t number = table.first_inode + done + i;
      if (!MayHaveAName(layout, number, raw)) continue;
      if (!visit({.number = number,
                  .mode = Get16(raw + inode::kMode),
                  .group = Get16(raw + inode::kGroupLow) |
                           static_cast<gid_t>(Get16(raw + inode::kGroupHigh)) << 16})) {
        return false;
      }
    }
    done += count;
  }
  return true;
}

}  // namespace

Status ForEachExt4Inode(int device, uint64_t most,
                        const std::function<bool(const InodeOwner&)>& visit) {
  Bytes bytes(kExt4SuperblockBytes);
  RETURN_IF_ERROR(ReadAt(device, kExt4SuperblockOffset, bytes));
  const off_t size = lseek(device, 0, SEEK_END);
  if (size < 0) return ErrnoError(errno, "find the size of ext4's device");
  const std::optional<Layout> layout = ParseLayout(bytes, static_cast<uint64_t>(size));
  if (!layout) return Error(StatusCode::kUnimplemented, "this layout of ext4 is not known");
  ASSIGN_OR_RETURN(const std::vector<Table> tables, ReadTables(device, *layout));
  uint64_t inodes = 0;
  for (const Table& table : tables) inodes += table.inodes;
  if (inodes > most) {
    return Error(StatusCode::kResourceExhausted, "the inode tables hold {} inodes, of {} at most",
                 inodes, most);
  }
  Bytes chunk;
  for (const Table& table : tables) {
    ASSIGN_OR_RETURN(const bool more, ReadTable(device, *layout, table, chunk, visit));
    if (!more) break;
  }
  return base::OkStatus();
}

}  // namespace berth::platform
