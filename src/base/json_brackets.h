// Visits the brackets of JSON text that are not inside strings. A caller sees the nesting of the
// text in this way, several times as fast as by parsing. The text is not checked.
#pragma once

#include <string_view>

namespace berth::base::json {

// Calls visit(position, bracket) for each of {}[] in order, until `visit` returns false.
template <typename Visit>
void VisitBrackets(std::string_view text, const Visit& visit) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[' || c == '}' || c == ']') {
      if (!visit(i, c)) return;
    }
  }
}

}  // namespace berth::base::json
