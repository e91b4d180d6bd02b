// Visits the brackets of JSON text that are not inside strings. A caller learns the nesting of the
// text several times as fast as by parsing it. Nothing checks that the text is valid JSON.
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
