// Makes random UUIDs, suffixes of Kubernetes names, digests and hashes. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::base {

// A random (version 4) UUID, lower case with dashes.
std::string NewUuid();

// `length` characters of Kubernetes' vowel-free alphabet (bcdfghjklmnpqrstvwxz2456789).
std::string RandomSuffix(size_t length);

// Lower-case hex of the SHA-256 of `data`.
std::string Sha256Hex(std::string_view data);

// FNV hashes. Unlike std::hash they give the same result in each program and on each machine. They
// do not protect against forgery.
inline constexpr uint32_t kFnvStart32 = 0x811c9dc5;
inline constexpr uint32_t kFnvPrime32 = 0x01000193;

// FNV-1a. To hash a text in pieces, pass the hash of the text before as `hash`.
constexpr uint32_t Fnv1a32(std::string_view text, uint32_t hash = kFnvStart32) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime32;
  return hash;
}

constexpr uint64_t Fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// FNV-1, the older variant.
constexpr uint32_t Fnv1_32(std::string_view text) {
  uint32_t hash = kFnvStart32;
  for (const char c : text) hash = (hash * kFnvPrime32) ^ static_cast<unsigned char>(c);
  return hash;
}

}  // namespace berth::base
