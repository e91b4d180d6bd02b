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

  // The functions return false if the text holds something else. The reader cannot be used after
  // that.
  bool TakeChar(char wanted) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  char Next() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  size_t at() const { return at_; }

  bool String(std::string& out) {
    if (!TakeChar('"')) return false;
    out.clear();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        out += c;
      } else if (!Escape(out)) {
        return false;
      }
    }
    return false;
  }

  // Skips any value, unless it is nested deeper than kDeepest.
  bool Skip() {
    std::string closing;  // the closing bracket of each open one, the innermost last
    std::string text;
    do {
      const char next = Next();
      if (next == '{' || next == '[') {
        if (closing.size() >= kDeepest) return false;
        ++at_;
        closing += next == '{' ? '}' : ']';
        if (Next() == closing.back()) {
          if (!Close(closing)) return false;
        } else if (closing.back() == '}' && !ReadName(text)) {
          return false;
        }
        continue;
      }
      if (!(next == '"' ? String(text) : Scalar()) || !AfterValue(closing, text)) return false;
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

  bool ReadName(std::string& text) { return String(text) && TakeChar(':'); }

  bool Scalar() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n,]}[{\":").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return at_ > begin;
  }

  // The innermost bracket closes here, which also ends a value inside the bracket around it.
  bool Close(std::string& closing) {
    ++at_;
    closing.pop_back();
    std::string text;
    return AfterValue(closing, text);
  }

  bool AfterValue(std::string& closing, std::string& text) {
    while (!closing.empty()) {
      if (TakeChar(',')) return closing.back() == ']' || ReadName(text);
      if (!TakeChar(closing.back())) return false;
      closing.pop_back();
    }
    return true;
  }

  bool Escape(std::string& out) {
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
    // Halves of surrogate pairs are replaced, because no name or id that is looked for has them.
    base::AppendUtf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// An object of strings; other values are left out.
bool ReadStrings(Reader& reader, Annotations& out) {
  if (!reader.TakeChar('{')) return false;
  if (reader.TakeChar('}')) return true;
  std::string name, value;
  do {
    if (!reader.String(name) || !reader.TakeChar(':')) return false;
    if (reader.Next() != '"') {
      if (!reader.Skip()) return false;
      continue;
    }
    if (!reader.String(value)) return false;
    out[name] = value;
  } while (reader.TakeChar(','));
  return reader.TakeChar('}');
}

bool ReadConfig(Reader& reader, Annotations& out) {
  if (!reader.TakeChar('{')) return false;
  if (reader.TakeChar('}')) return true;
  std::string name;
  do {
    if (!reader.String(name) || !reader.TakeChar(':')) return false;
    if (name == "annotations" && reader.Next() == '{') {
      out.clear();
      if (!ReadStrings(reader, out)) return false;
    } else if (!reader.Skip()) {
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
