// Identifiers: random UUIDs, Kubernetes name suffixes and digests.
#pragma once

#include <string>
#include <string_view>

namespace berth::base {

// A random (version 4) UUID, lower case with dashes.
std::string NewUuid();

// `length` characters of Kubernetes' vowel-free alphabet (bcdfghjklmnpqrstvwxz2456789).
std::string RandomSuffix(size_t length);

// Lower-case hex of the SHA-256 of `data`.
std::string Sha256Hex(std::string_view data);

}  // namespace berth::base
