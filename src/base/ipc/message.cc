#include "base/ipc/message.h"

#include <string.h>

#include <charconv>

#include "base/utf8.h"

namespace berth::base::ipc {
namespace {

// A byte that is not UTF-8 is written as this lone surrogate plus the byte.
constexpr unsigned kLoneByte = 0xdc00;
constexpr std::string_view kHex = "0123456789abcdef";

void WriteUnit(std::string& out, unsigned unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 15];
}

void WriteString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const size_t length = Utf8Length(text);
    if (length == 0) {
      WriteUnit(out, kLoneByte + byte);
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text.front();
    } else if (byte < 0x20 || byte == 0x7f) {
      WriteUnit(out, byte);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void WriteList(std::string& out, const Strings& list) {
  out += '[';
  for (const std::string& item : list) {
    if (&item != &list.front()) out += ',';
    WriteString(out, item);
  }
  out += ']';
}

// Parses the text from its front. Each function returns false if it cannot read on; then failure()
// has the reason.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), rest_(text) {}

  bool ReadObject(Message& message) {
    if (!Expect('{')) return false;
    if (!TakeChar('}')) {
      do {
        if (!ReadField(message)) return false;
      } while (TakeChar(','));
      if (!Expect('}')) return false;
    }
    SkipSpace();
    return rest_.empty() || Fail("there is text after the end");
  }

  Failure failure() const {
    return {Problem::kBroken, "at byte " + std::to_string(text_.size() - rest_.size()) +
                                  " of the message: " + reason_};
  }

 private:
  bool ReadField(Message& message) {
    std::string name;
    if (!ReadString(name) || !Expect(':')) return false;
    for (const auto& [other, value] : message.fields()) {
      if (other == name) return Fail("a field is there twice");
    }
    if (message.fields().size() == kMostFields) return Fail("too many fields");
    SkipSpace();
    const char first = rest_.empty() ? '\0' : rest_.front();
    if (first == '"') {
      std::string text;
      if (!ReadString(text)) return false;
      message.Set(name, std::move(text));
    } else if (first == '[') {
      Strings list;
      if (!ReadList(list)) return false;
      message.Set(name, std::move(list));
    } else {
      int64_t number = 0;
      if (!ReadNumber(number)) return false;
      message.Set(name, number);
    }
    return true;
  }

  bool ReadList(Strings& list) {
    if (!Expect('[')) return false;
    if (TakeChar(']')) return true;
    do {
      if (!ReadString(list.emplace_back())) return false;
    } while (TakeChar(','));
    return Expect(']');
  }

  bool ReadNumber(int64_t& number) {
    const char* end = rest_.data() + rest_.size();
    const auto [stop, error] = std::from_chars(rest_.data(), end, number);
    const std::string_view digits(rest_.data(), static_cast<size_t>(stop - rest_.data()));
    const std::string_view unsigned_digits = digits.substr(digits.starts_with('-') ? 1 : 0);
    const bool leading_zero = unsigned_digits.size() > 1 && unsigned_digits.front() == '0';
    if (error != std::errc() || leading_zero ||
        (stop != end && strchr(".eE", *stop) != nullptr && *stop != '\0')) {
      return Fail("a value is not a string, whole number or list of strings");
    }
    rest_.remove_prefix(digits.size());
    return true;
  }

  bool ReadString(std::string& out) {
    if (!Expect('"')) return false;
    while (!rest_.empty()) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      if (byte == '"') {
        rest_.remove_prefix(1);
        return true;
      }
      if (byte < 0x20) return Fail("a string has a control character");
      if (byte == '\\') {
        if (!ReadEscape(out)) return false;
        continue;
      }
      const size_t length = Utf8Length(rest_);
      if (length == 0) return Fail("bytes are not UTF-8");
      out += rest_.substr(0, length);
      rest_.remove_prefix(length);
    }
    return Fail("a string does not end");
  }

  bool ReadEscape(std::string& out) {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    rest_.remove_prefix(1);
    const char kind = rest_.empty() ? '\0' : rest_.front();
    if (kind == 'u') return ReadUnits(out);
    const size_t place = kShort.find(kind);
    if (place == std::string_view::npos) return Fail("an unknown escape");
    out += kMeaning[place];
    rest_.remove_prefix(1);
    return true;
  }

  // Reads \uXXXX, or two of them that are one character (a surrogate pair).
  bool ReadUnits(std::string& out) {
    unsigned unit = 0;
    if (!ReadUnit(unit)) return false;
    if (unit >= kLoneByte + 0x80 && unit <= kLoneByte + 0xff) {
      out += static_cast<char>(unit - kLoneByte);
      return true;
    }
    if (unit >= 0xd800 && unit < 0xdc00) {
      unsigned low = 0;
      if (!rest_.starts_with("\\u")) return Fail("half a surrogate pair");
      rest_.remove_prefix(1);
      if (!ReadUnit(low)) return false;
      if (low < 0xdc00 || low > 0xdfff) return Fail("half a surrogate pair");
      AppendUtf8(out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
      return true;
    }
    if (unit >= 0xdc00 && unit <= 0xdfff) return Fail("half a surrogate pair");
    AppendUtf8(out, unit);
    return true;
  }

  // Reads "uXXXX".
  bool ReadUnit(unsigned& unit) {
    const std::string_view digits = rest_.substr(1, 4);
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() < 4 || error != std::errc() || stop != digits.data() + 4) {
      return Fail("an escape without four digits");
    }
    rest_.remove_prefix(5);
    return true;
  }

  void SkipSpace() {
    while (!rest_.empty() && strchr(" \t\r\n", rest_.front()) != nullptr && rest_.front() != '\0') {
      rest_.remove_prefix(1);
    }
  }

  bool TakeChar(char wanted) {
    SkipSpace();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool Expect(char wanted) {
    if (TakeChar(wanted)) return true;
    return Fail(std::string("a '") + wanted + "' is missing");
  }

  bool Fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  const std::string_view text_;
  std::string_view rest_;
  std::string reason_;
};

}  // namespace

Message& Message::Put(std::string_view name, Value value) {
  for (auto& [other, old] : fields_) {
    if (other != name) continue;
    old = std::move(value);
    return *this;
  }
  fields_.emplace_back(std::string(name), std::move(value));
  return *this;
}

const Message::Value* Message::Find(std::string_view name) const {
  for (const auto& [other, value] : fields_) {
    if (other == name) return &value;
  }
  return nullptr;
}

std::string WriteJson(const Message& message) {
  std::string out = "{";
  for (const auto& [name, value] : message.fields()) {
    if (out.size() > 1) out += ',';
    WriteString(out, name);
    out += ':';
    if (const auto* text = std::get_if<std::string>(&value)) {
      WriteString(out, *text);
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      out += std::to_string(*number);
    } else {
      WriteList(out, *std::get_if<Strings>(&value));
    }
  }
  out += '}';
  return out;
}

Result<Message> ReadJson(std::string_view json) {
  Message message;
  Reader reader(json);
  if (!reader.ReadObject(message)) return reader.failure();
  return message;
}

}  // namespace berth::base::ipc
