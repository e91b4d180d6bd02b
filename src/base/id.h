// An identifier that cannot be mixed up with one of another kind.
//
//   using PodUid = base::Id<struct PodUidKind>;
//   using NodeName = base::Id<struct NodeNameKind>;
//
// If a caller swaps them or passes a bare string, a call of a function that takes (PodUid,
// NodeName) does not compile. Make an id where the text enters the program: from an API object, a
// record or a message. An id holds any text, so the caller checks the text first. A plain value
// type.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace berth::base {

template <typename Kind>
class Id {
 public:
  Id() = default;
  explicit Id(std::string text) : text_(std::move(text)) {}
  explicit Id(std::string_view text) : text_(text) {}
  explicit Id(const char* text) : text_(text) {}

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

  friend bool operator==(const Id&, const Id&) = default;
  friend auto operator<=>(const Id&, const Id&) = default;

  // GoogleTest prints an id with this function.
  friend void PrintTo(const Id& id, std::ostream* out) { *out << Quote(id.text_); }

 private:
  std::string text_;
};

}  // namespace berth::base

template <typename Kind>
struct std::hash<berth::base::Id<Kind>> {
  size_t operator()(const berth::base::Id<Kind>& id) const noexcept {
    return std::hash<std::string>()(id.text());
  }
};

// In log lines and messages an id stands in quotes (base::Quote), because its text comes from
// outside. Build paths and names of objects from text(), which has no quotes.
template <typename Kind>
struct fmt::formatter<berth::base::Id<Kind>> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const berth::base::Id<Kind>& id, Context& context) const {
    return fmt::formatter<std::string_view>::format(berth::base::Quote(id.text()), context);
  }
};
