#include "api/cel/lexer.h"

#include <array>
#include <charconv>

#include "api/cel/syntax.h"
#include "base/utf8.h"

namespace berth::api::cel {

using base::Status;
using base::StatusOr;

namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

constexpr std::array<std::string_view, 16> kReserved = {
    "as",     "break", "const", "continue", "else",      "for",    "function", "if",
    "import", "let",   "loop",  "package",  "namespace", "return", "var",      "void"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  StatusOr<std::vector<Token>> ReadTokens() {
    std::vector<Token> tokens;
    while (true) {
      SkipSpace();
      Token token{.offset = at_};
      if (at_ == text_.size()) {
        tokens.push_back(std::move(token));
        return tokens;
      }
      RETURN_IF_ERROR(ReadToken(token));
      tokens.push_back(std::move(token));
    }
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  Status Fail(std::string_view what) const { return ErrorAt(text_, at_, what); }

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  Status ReadToken(Token& token) {
    const char c = Peek();
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return ReadNumber(token);
    if (const size_t quote = FindQuote(); quote != std::string_view::npos) {
      return ReadString(token, quote);
    }
    if (IsNameStart(c)) return ReadName(token);
    for (const std::string_view symbol :
         {"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*",
          "/",  "%",  "?",  ":",  "(",  ")",  "[", "]", "{", "}", ",", "."}) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      token.type = Token::Type::kSymbol;
      token.text = symbol;
      at_ += symbol.size();
      return base::OkStatus();
    }
    return Fail(fmt::format("Syntax error: token recognition error at: '{}'", c));
  }

  Status ReadName(Token& token) {
    const size_t start = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    token.text = text_.substr(start, at_ - start);
    token.type = Token::Type::kName;
    if (token.text == "true" || token.text == "false" || token.text == "null") {
      token.type = Token::Type::kLiteral;
      token.literal = token.text == "null" ? Value() : Value(token.text == "true");
    } else if (token.text == "in") {
      token.type = Token::Type::kSymbol;
    } else if (std::find(kReserved.begin(), kReserved.end(), token.text) != kReserved.end()) {
      at_ = start;
      return Fail(fmt::format("reserved identifier: {}", token.text));
    }
    return base::OkStatus();
  }

  Status ReadNumber(Token& token) {
    token.type = Token::Type::kLiteral;
    const size_t start = at_;
    if (Peek() == '0' && (Peek(1) == 'x' || Peek(1) == 'X')) {
      uint64_t value = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_ + 2, text_.data() + text_.size(), value, 16);
      if (error != std::errc() || value > INT64_MAX) return Fail("invalid int literal");
      at_ = static_cast<size_t>(end - text_.data());
      token.literal = static_cast<int64_t>(value);
    } else {
      while (IsDigit(Peek())) ++at_;
      bool real = false;
      if (Peek() == '.' && IsDigit(Peek(1))) {
        real = true;
        for (++at_; IsDigit(Peek());) ++at_;
      }
      if (Peek() == 'e' || Peek() == 'E') {
        real = true;
        ++at_;
        if (Peek() == '+' || Peek() == '-') ++at_;
        while (IsDigit(Peek())) ++at_;
      }
      const std::string_view digits = text_.substr(start, at_ - start);
      const char* const end = digits.data() + digits.size();
      if (real) {
        double value = 0;
        const auto result = std::from_chars(digits.data(), end, value);
        if (result.ec != std::errc() || result.ptr != end) return Fail("invalid double literal");
        token.literal = value;
      } else {
        uint64_t value = 0;
        const auto result = std::from_chars(digits.data(), end, value);
        // 9223372036854775808 is read as the smallest int; only a minus sign before it makes it
        // valid.
        if (result.ec != std::errc() || value > uint64_t{1} << 63)
          return Fail("invalid int literal");
        token.literal = static_cast<int64_t>(value);
      }
    }
    if (Peek() == 'u' || Peek() == 'U') return Fail("unsigned integers are not supported");
    if (IsNamePart(Peek())) return Fail("Syntax error: a number must not end in a name");
    return base::OkStatus();
  }

  // If a string literal starts here ("..." or r"..."), the position of its quote; else npos.
  size_t FindQuote() const {
    size_t ahead = 0;
    while (ahead < 2 && std::string_view("rRbB").find(Peek(ahead)) != std::string_view::npos &&
           Peek(ahead) != '\0') {
      ++ahead;
    }
    const char c = Peek(ahead);
    return c == '"' || c == '\'' ? at_ + ahead : std::string_view::npos;
  }

  Status ReadString(Token& token, size_t quote) {
    const std::string_view prefix = text_.substr(at_, quote - at_);
    if (prefix.find_first_of("bB") != std::string_view::npos)
      return Fail("bytes are not supported");
    const bool raw = !prefix.empty();
    at_ = quote;
    const std::string triple(3, text_[quote]);
    const bool long_form = text_.substr(at_).starts_with(triple);
    const std::string end = long_form ? triple : triple.substr(0, 1);
    at_ += end.size();
    std::string out;
    while (!text_.substr(at_).starts_with(end)) {
      if (at_ >= text_.size() || (!long_form && Peek() == '\n')) {
        return Fail("Syntax error: the string does not end");
      }
      if (Peek() == '\\' && !raw) {
        RETURN_IF_ERROR(ReadEscape(out));
      } else {
        out += text_[at_++];
      }
    }
    at_ += end.size();
    token.type = Token::Type::kLiteral;
    token.literal = std::move(out);
    return base::OkStatus();
  }

  Status ReadEscape(std::string& out) {
    static constexpr std::string_view kNames = "abfnrtv\\?\"'`";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\?\"'`";
    const char c = Peek(1);
    if (const size_t found = kNames.find(c); c != '\0' && found != std::string_view::npos) {
      out += kValues[found];
      at_ += 2;
      return base::OkStatus();
    }
    const size_t digits = c == 'x' || c == 'X' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 3;
    const int radix = digits == 3 ? 8 : 16;
    const size_t start = at_ + (digits == 3 ? 1 : 2);
    uint32_t code = 0;
    if (start + digits > text_.size()) return Fail("Syntax error: bad escape in a string");
    const char* const begin = text_.data() + start;
    const auto result = std::from_chars(begin, begin + digits, code, radix);
    if (result.ec != std::errc() || result.ptr != begin + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      return Fail("Syntax error: bad escape in a string");
    }
    base::AppendUtf8(out, code);
    at_ = start + digits;
    return base::OkStatus();
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

StatusOr<std::vector<Token>> Tokenize(std::string_view text) { return Lexer(text).ReadTokens(); }

}  // namespace berth::api::cel
