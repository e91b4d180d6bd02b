#include "apiserver/formats/json_indenter.h"

namespace berth::apiserver {

void JsonIndenter::BreakLine(std::string& out) const {
  out += '\n';
  out.append(2 * depth_, ' ');
}

void JsonIndenter::Write(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (in_string_) {
      out += c;
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (closes && depth_ > 0) --depth_;
    if (closes ? !just_opened_ : just_opened_) BreakLine(out);
    just_opened_ = false;
    out += c;
    if (c == '{' || c == '[') {
      ++depth_;
      just_opened_ = true;
    } else if (c == ',') {
      BreakLine(out);
    } else if (c == ':') {
      out += ' ';
    } else if (c == '"') {
      in_string_ = true;
    }
  }
}

}  // namespace berth::apiserver
