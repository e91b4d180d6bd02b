// Removes the secrets that were passed to a driver from the text that it prints.
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

  // Returns `text` on one line of about `max_bytes` at most, without the secrets. If the text
  // contains a secret of less than four bytes, all of the text is withheld, because such a word is
  // common in other text.
  std::string Redact(std::string_view text, size_t max_bytes = 1024) const;

 private:
  std::string ReplaceWords(std::string text) const;

  std::vector<std::string> words_;  // the longest first
  std::vector<std::string> short_words_;
};

}  // namespace berth::volume
