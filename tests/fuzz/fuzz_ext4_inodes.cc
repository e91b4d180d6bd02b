// Random bytes in a device's superblock, group descriptors and inode tables, because a tenant may
// have written them.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <boost/endian/conversion.hpp>

#include "base/unique_fd.h"
#include "platform/walks/ext4_inodes.h"

namespace {

using namespace berth;  // NOLINT(google-build-using-namespace): a program of one file

constexpr uint64_t kMost = 10'000;

struct Device {
  std::array<uint8_t, 16 * 1024> bytes = {};

  void Put16(size_t at, uint16_t value) {
    boost::endian::store_little_u16(bytes.data() + at, value);
  }
  void Put32(size_t at, uint32_t value) {
    boost::endian::store_little_u32(bytes.data() + at, value);
  }
};

// One group of blocks of 1 KiB: descriptors in block 2, the table of 16 inodes from block 4 on.
Device SmallFileSystem() {
  constexpr size_t kSuper = 1024, kDescriptor = 2048;
  Device device;
  device.Put32(kSuper + 0x00, 16);  // inodes
  device.Put32(kSuper + 0x04, 16);  // blocks
  device.Put32(kSuper + 0x14, 1);   // the first data block
  device.Put32(kSuper + 0x20, 8192);
  device.Put32(kSuper + 0x28, 16);
  device.Put16(kSuper + 0x38, 0xEF53);
  device.Put32(kSuper + 0x4C, 1);
  device.Put32(kSuper + 0x54, 11);
  device.Put16(kSuper + 0x58, 256);
  device.Put16(kSuper + 0xFE, 64);
  device.Put32(kDescriptor + 0x08, 4);
  for (size_t inode = 0; inode < 16; ++inode) device.Put16(4096 + inode * 256 + 0x1A, 1);
  return device;
}

}  // namespace

// The input replaces bytes of that file system, each by a position (2 bytes) and a value (1 byte).
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Device device = SmallFileSystem();
  for (size_t at = 0; at + 3 <= size; at += 3) {
    device.bytes[boost::endian::load_little_u16(data + at) % device.bytes.size()] = data[at + 2];
  }
  const base::UniqueFd file(memfd_create("device", MFD_CLOEXEC));
  if (write(file.get(), device.bytes.data(), device.bytes.size()) !=
      static_cast<ssize_t>(device.bytes.size())) {
    return 0;
  }
  uint64_t visited = 0, last = 0;
  const base::Status read =
      platform::ForEachExt4Inode(file.get(), kMost, [&](const platform::InodeOwner& inode) {
        if (inode.number <= last || ++visited > kMost) __builtin_trap();
        last = inode.number;
        return true;
      });
  // Without a change it has seven inodes: the root, and 11 to 16, which are those for files.
  if (size < 3 && (!read.ok() || visited != 7)) __builtin_trap();
  return 0;
}
