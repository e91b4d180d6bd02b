// Indents compact JSON piece by piece, so that `?pretty=true` works for answers of any length.
//
// The indenter keeps only a few words between two pieces. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace berth::apiserver {

class JsonIndenter {
 public:
  // Appends `text`, the next piece of one compact JSON value, to `out` with two spaces for each
  // level.
  void Write(std::string_view text, std::string& out);

 private:
  void BreakLine(std::string& out) const;

  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool just_opened_ = false;  // after '{' or '[': an empty object or array stays on its line
};

}  // namespace berth::apiserver
