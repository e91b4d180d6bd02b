// What a driver was given and must not be shown again, whatever it prints.
//
// The protocol hands secrets to a driver as arguments (docs/adr), and a driver that traces itself
// or complains about its options prints them. Its words reach events, which many may read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::volume {

class SecretWords {
 public:
  // The value of a secret: as it is, line by line, and as base64, which the options have.
  void Add(std::string_view value);

  // `text` on one line of at most `max_bytes`, without the secrets. One that is too short to be
  // told from other text has all of it withheld.
  std::string Shown(std::string_view text, size_t max_bytes = 1024) const;

 private:
  std::string Redacted(std::string text) const;

  std::vector<std::string> words_;  // the longest first
  std::vector<std::string> short_words_;
};

}  // namespace berth::volume
