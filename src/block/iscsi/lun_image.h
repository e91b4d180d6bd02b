// The names of images that are LUNs. LUNs have no names of their own that could be chosen, so the
// name of the image says which LUN it is:
//
//   pvc-2b6f….1d0c6b6d1e6f5a3b
//   volume    digest of the LUN's identity: the first 16 hex digits of its SHA-256
//
// A PersistentVolume has this name among its options, which nobody can change later, so the
// assignment of a LUN is kept as long as the volume. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::block {

std::string DigestLun(std::string_view identity);
std::string MakeLunImage(std::string_view volume, std::string_view identity);

struct LunImage {
  std::string volume;  // owns the LUN: its name is part of the keys of persistent reservations
  std::string digest;  // empty: the name has none, because no LUN was taken for the volume yet
};
LunImage ParseLunImage(std::string_view image);

}  // namespace berth::block
