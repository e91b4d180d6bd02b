#include "base/ids.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>

#include "base/sha256.h"

namespace berth::base {
namespace {

template <size_t N>
std::array<unsigned char, N> RandomBytes() {
  std::array<unsigned char, N> bytes;
  // Once the kernel's pool is ready, getrandom returns up to 256 bytes at once and without EINTR.
  while (getrandom(bytes.data(), N, 0) != static_cast<ssize_t>(N)) {
  }
  return bytes;
}

}  // namespace

std::string NewUuid() {
  auto b = RandomBytes<16>();
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  std::string out;
  for (size_t i = 0; i < b.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", b[i]);
  }
  return out;
}

std::string RandomSuffix(size_t length) {
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  while (out.size() < length) {
    for (const unsigned char byte : RandomBytes<16>()) {
      // Larger bytes are skipped, because they would make the first letters more likely.
      if (byte < 27 * 9 && out.size() < length) out += kAlphabet[byte % kAlphabet.size()];
    }
  }
  return out;
}

std::string Sha256Hex(std::string_view data) {
  Sha256 digest;
  digest.Add(data);
  return digest.FinishHex();
}

}  // namespace berth::base
