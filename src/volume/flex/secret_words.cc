#include "volume/flex/secret_words.h"

#include <algorithm>

#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

namespace berth::volume {
namespace {

constexpr std::string_view kRedacted = "[redacted]";
constexpr size_t kShort = 4;  // bytes; shorter ones occur in many harmless words

void InsertNew(std::vector<std::string>& words, std::string_view word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.emplace_back(word);
}

}  // namespace

void SecretWords::Add(std::string_view value) {
  if (value.empty()) return;
  InsertNew(words_, base::EncodeBase64(value));
  const auto add = [this](std::string_view word) {
    if (!word.empty()) InsertNew(word.size() < kShort ? short_words_ : words_, word);
  };
  add(value);
  add(base::Trim(value));
  // The value as it looks in a JSON string.
  const std::string quoted = base::json::Dump(base::Json(std::string(value)));
  add(std::string_view(quoted).substr(1, quoted.size() - 2));
  // A key of several lines may be printed with a prefix before each line.
  if (value.find('\n') != std::string_view::npos) {
    for (size_t at = 0; at < value.size();) {
      const size_t end = std::min(value.find('\n', at), value.size());
      const std::string_view line = base::Trim(value.substr(at, end - at));
      // Short lines of a long value ("}", "") are no secrets.
      if (line.size() >= kShort) add(line);
      at = end + 1;
    }
  }
  std::sort(words_.begin(), words_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string SecretWords::ReplaceWords(std::string text) const {
  for (const std::string& word : words_) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += kRedacted.size()) {
      text.replace(at, word.size(), kRedacted);
    }
  }
  const auto occurs = [&text](const std::string& word) {
    return text.find(word) != std::string::npos;
  };
  if (!std::any_of(short_words_.begin(), short_words_.end(), occurs)) return text;
  return "[withheld: it may hold a short secret]";
}

std::string SecretWords::Redact(std::string_view text, size_t max_bytes) const {
  std::string shown = ReplaceWords(std::string(base::Trim(text)));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (shown.size() <= max_bytes) return shown;
  return shown.substr(0, base::CharacterEnd(shown, max_bytes)) + "...";
}

}  // namespace berth::volume
