// Writes an archive in cpio's "newc" format, in which a kernel reads its initramfs
// (Documentation/driver-api/early-userspace/buffer-format.rst of Linux). In memory; not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::crust {

class CpioWriter {
 public:
  // Paths have no leading "/", and a folder comes before what is in it.
  void AddFolder(std::string_view path) { Add(path, "", 0040755); }
  void AddFile(std::string_view path, std::string_view content, mode_t mode) {
    Add(path, content, 0100000 | mode);
  }
  // Returns the archive. Nothing may be added afterwards.
  std::string Finish();

 private:
  void Add(std::string_view path, std::string_view content, mode_t mode);

  std::string out_;
  uint32_t next_inode_ = 1;
};

}  // namespace berth::crust
