// A message on the socket: a flat JSON object, whose values are strings, whole numbers and lists of
// strings. This code uses no JSON library, so that the static programs stay small.
//
// A string may hold any bytes, because arguments and output may. UTF-8 is written as it is; each
// other byte is written as the lone surrogate \udc00 + byte, so that every JSON parser can read the
// result.
//
// A request has the field `method`. A reply has either the fields that the method defines, or the
// field `error` with the error's message, and then `code`, the name of its code (base/status.h).
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

  // Sets a field, or replaces it. Returns this message.
  Message& Set(std::string_view name, std::string value) { return Put(name, std::move(value)); }
  Message& Set(std::string_view name, int64_t value) { return Put(name, value); }
  Message& Set(std::string_view name, Strings value) { return Put(name, std::move(value)); }

  // nullptr or nullopt: there is no such field, or it has another type.
  const std::string* FindText(std::string_view name) const { return As<std::string>(name); }
  const Strings* FindList(std::string_view name) const { return As<Strings>(name); }
  std::optional<int64_t> FindNumber(std::string_view name) const {
    const int64_t* number = As<int64_t>(name);
    return number == nullptr ? std::nullopt : std::optional(*number);
  }

  // The fields, in the order in which they were set.
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
inline constexpr std::string_view kErrorCode = "code";
inline constexpr size_t kMostFields = 64;

std::string WriteJson(const Message& message);

// Parses the text of a message. kBroken, with the place of the fault: `json` is not such an object,
// for example because it has a field twice, a fraction, a nested object, or bytes after the end; or
// it has more than kMostFields fields.
Result<Message> ReadJson(std::string_view json);

}  // namespace berth::base::ipc
