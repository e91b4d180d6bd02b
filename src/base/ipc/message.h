// What goes over the socket: a flat JSON object, whose values are strings, whole numbers and lists
// of strings. Written here without a JSON library, for programs that are to stay small.
//
// A string may hold any bytes, because arguments and output may. UTF-8 is written as it is; each
// other byte is written as the lone surrogate \udc00 + byte, so that every JSON parser can read the
// result.
//
// A request names its `method`; a reply either has what the method gives, or an `error`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ipc/result.h"

namespace berth::base::ipc {

using Strings = std::vector<std::string>;

class Message {
 public:
  using Value = std::variant<std::string, int64_t, Strings>;

  Message& Set(std::string_view name, std::string value) { return Put(name, std::move(value)); }
  Message& Set(std::string_view name, int64_t value) { return Put(name, value); }
  Message& Set(std::string_view name, Strings value) { return Put(name, std::move(value)); }

  // Null (none) for a field that is not there or is of another type.
  const std::string* FindText(std::string_view name) const { return As<std::string>(name); }
  const Strings* FindList(std::string_view name) const { return As<Strings>(name); }
  std::optional<int64_t> FindNumber(std::string_view name) const {
    const int64_t* number = As<int64_t>(name);
    return number == nullptr ? std::nullopt : std::optional(*number);
  }

  // In the order in which they were set.
  const std::vector<std::pair<std::string, Value>>& fields() const { return fields_; }
  bool operator==(const Message&) const = default;

 private:
  Message& Put(std::string_view name, Value value);
  const Value* Find(std::string_view name) const;
  template <typename T>
  const T* As(std::string_view name) const {
    const Value* value = Find(name);
    return value == nullptr ? nullptr : std::get_if<T>(value);
  }

  std::vector<std::pair<std::string, Value>> fields_;
};

inline constexpr std::string_view kMethod = "method";
inline constexpr std::string_view kError = "error";
inline constexpr size_t kMostFields = 64;

std::string WriteJson(const Message& message);

// Everything that is not such an object is kBroken, with the place of the fault: a field named
// twice, a fraction, a nested object, bytes after the end.
Result<Message> ReadJson(std::string_view json);

}  // namespace berth::base::ipc
