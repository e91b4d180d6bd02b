// Removes the secrets that a driver was given from everything that it prints.
//
// The protocol passes secrets to a driver as arguments (docs/adr), and a driver that traces itself
// or complains about its options prints them. Its output goes into events, which many users may
// read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::volume {

class SecretWords {
 public:
  // Adds the value of a secret: as it is, line by line, and as base64, the form in the options.
  void Add(std::string_view value);

  // `text` on one line of at most `max_bytes`, without the secrets. If a secret is too short to be
  // told from other text, all of the text is withheld.
  std::string Shown(std::string_view text, size_t max_bytes = 1024) const;

 private:
  std::string Redacted(std::string text) const;

  std::vector<std::string> words_;  // the longest first
  std::vector<std::string> short_words_;
};

}  // namespace berth::volume
