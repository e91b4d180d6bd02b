#include "block/iscsi/lun_image.h"

#include <algorithm>

#include "base/ids.h"

namespace berth::block {

namespace {

constexpr size_t kDigits = 16;

}  // namespace

std::string DigestLun(std::string_view identity) {
  return base::Sha256Hex(identity).substr(0, kDigits);
}

std::string MakeLunImage(std::string_view volume, std::string_view identity) {
  return std::string(volume) + "." + DigestLun(identity);
}

LunImage ParseLunImage(std::string_view image) {
  const size_t dot = image.rfind('.');
  const std::string_view digest = dot == std::string_view::npos ? "" : image.substr(dot + 1);
  const bool is_digest =
      dot > 0 && digest.size() == kDigits && std::ranges::all_of(digest, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      });
  if (!is_digest) return {.volume = std::string(image), .digest = ""};
  return {.volume = std::string(image.substr(0, dot)), .digest = std::string(digest)};
}

}  // namespace berth::block
