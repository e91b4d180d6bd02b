#include "crust/machine/cpio.h"

#include <fmt/format.h>

#include <utility>

namespace berth::crust {
namespace {

constexpr size_t kAlignment = 4;

void Pad(std::string& text) {
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

void CpioWriter::Add(std::string_view path, std::string_view content, mode_t mode) {
  const uint32_t inode = next_inode_++;
  const uint32_t links = 1, zero = 0;
  // Magic, inode, mode, user, group, links, time, size, the numbers of two devices, the length of
  // the name, and a check sum that is not used.
  out_ += fmt::format(
      "070701{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}", inode,
      mode, zero, zero, links, zero, content.size(), zero, zero, zero, zero, path.size() + 1, zero);
  out_ += path;
  out_ += '\0';
  Pad(out_);
  out_ += content;
  Pad(out_);
}

std::string CpioWriter::Finish() {
  Add("TRAILER!!!", "", 0);
  return std::move(out_);
}

}  // namespace berth::crust
