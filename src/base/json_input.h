// What a program that another one runs as its child reads and says: one JSON object on standard
// input, and one on standard output after a failure. Both may be about secrets.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "base/files/whole_file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/status.h"

namespace berth::base::json {

// Reads the descriptor to its end. INVALID_ARGUMENT: it is not one JSON object, or has more than
// `most` bytes. `what` names it in the message, which has no part of the text.
inline StatusOr<Json> ReadObject(int fd, size_t most, std::string_view what) {
  std::string text;
  const int error = ReadAll(fd, most, text);
  if (error == EFBIG) {
    return Error(StatusCode::kInvalidArgument, "{} has more than {} bytes", what, most);
  }
  if (error != 0) return Error(StatusCode::kInternal, "read {}: {}", what, strerror(error));
  auto object = Parse(text);
  // The parser's own message may have a part of the text.
  if (!object.ok() || !object->is_object()) {
    return Error(StatusCode::kInvalidArgument, "{} is not one JSON object", what);
  }
  return object;
}

// {"error": {"code": "NOT_FOUND", "message": "..."}}
inline Json FailureReply(const Status& failure) {
  return {{"error",
           {{"code", std::string(CodeName(failure.code()))},
            {"message", std::string(Message(failure))}}}};
}

}  // namespace berth::base::json
