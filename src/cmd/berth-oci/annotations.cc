#include "cmd/berth-oci/annotations.h"

#include <vector>

#include "base/utf8.h"

namespace berth::oci {

namespace ipc = base::ipc;

namespace {

constexpr size_t kDeepest = 256;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // The functions return false if something else follows in the text. The reader cannot be used
  // after that.
  bool TakeChar(char wanted) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  // Returns the next character after white space, and does not consume it; '\0' at the end.
  char PeekChar() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  size_t at() const { return at_; }

  bool ReadString(std::string& out) {
    if (!TakeChar('"')) return false;
    out.clear();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        out += c;
      } else if (!ReadEscape(out)) {
        return false;
      }
    }
    return false;
  }

  // Skips any value, unless it is nested deeper than kDeepest.
  bool SkipValue() {
    std::string closing;  // the closing bracket of each open one, the innermost last
    std::string text;
    do {
      const char next = PeekChar();
      if (next == '{' || next == '[') {
        if (closing.size() >= kDeepest) return false;
        ++at_;
        closing += next == '{' ? '}' : ']';
        if (PeekChar() == closing.back()) {
          if (!CloseBracket(closing)) return false;
        } else if (closing.back() == '}' && !ReadName(text)) {
          return false;
        }
        continue;
      }
      if (!(next == '"' ? ReadString(text) : SkipScalar()) || !ContinueAfterValue(closing, text))
        return false;
    } while (!closing.empty());
    return true;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }

  bool ReadName(std::string& text) { return ReadString(text) && TakeChar(':'); }

  bool SkipScalar() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n,]}[{\":").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return at_ > begin;
  }

  // Closes the innermost bracket, which also ends a value of the bracket around it.
  bool CloseBracket(std::string& closing) {
    ++at_;
    closing.pop_back();
    std::string text;
    return ContinueAfterValue(closing, text);
  }

  bool ContinueAfterValue(std::string& closing, std::string& text) {
    while (!closing.empty()) {
      if (TakeChar(',')) return closing.back() == ']' || ReadName(text);
      if (!TakeChar(closing.back())) return false;
      closing.pop_back();
    }
    return true;
  }

  bool ReadEscape(std::string& out) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const size_t i = kEscapes.find(c); i != std::string_view::npos) {
      out += kMeanings[i];
      return true;
    }
    if (c != 'u' || text_.size() - at_ < 4) return false;
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char digit = text_[at_++];
      const size_t value =
          kDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit);
      if (value == std::string_view::npos) return false;
      code = code * 16 + static_cast<unsigned>(value);
    }
    // Halves of surrogate pairs are replaced, because the names and ids that are needed have none.
    base::AppendUtf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Reads an object of strings; other values are left out.
bool ReadStrings(Reader& reader, Annotations& out) {
  if (!reader.TakeChar('{')) return false;
  if (reader.TakeChar('}')) return true;
  std::string name, value;
  do {
    if (!reader.ReadString(name) || !reader.TakeChar(':')) return false;
    if (reader.PeekChar() != '"') {
      if (!reader.SkipValue()) return false;
      continue;
    }
    if (!reader.ReadString(value)) return false;
    out[name] = value;
  } while (reader.TakeChar(','));
  return reader.TakeChar('}');
}

bool ReadConfig(Reader& reader, Annotations& out) {
  if (!reader.TakeChar('{')) return false;
  if (reader.TakeChar('}')) return true;
  std::string name;
  do {
    if (!reader.ReadString(name) || !reader.TakeChar(':')) return false;
    if (name == "annotations" && reader.PeekChar() == '{') {
      out.clear();
      if (!ReadStrings(reader, out)) return false;
    } else if (!reader.SkipValue()) {
      return false;
    }
  } while (reader.TakeChar(','));
  return reader.TakeChar('}');
}

}  // namespace

ipc::Result<Annotations> ReadAnnotations(std::string_view config) {
  Reader reader(config);
  Annotations annotations;
  if (ReadConfig(reader, annotations) && reader.AtEnd()) return annotations;
  return ipc::Failure{ipc::Problem::kBroken, "config.json is no JSON object, as of its byte " +
                                                 std::to_string(reader.at())};
}

}  // namespace berth::oci
