#include "platform/errno.h"

#include <cerrno>
#include <cstring>

namespace berth::platform {
namespace {

base::StatusCode CodeFor(int error) {
  using base::StatusCode;
  switch (error) {
    case ENOENT:
      return StatusCode::kNotFound;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
      return StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return StatusCode::kResourceExhausted;
    case EBUSY:
      return StatusCode::kFailedPrecondition;
    case EINVAL:
      return StatusCode::kInvalidArgument;
    case ETIMEDOUT:
      return StatusCode::kDeadlineExceeded;
    case ECONNREFUSED:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

base::Status ErrnoError(int error, std::string_view context) {
  // strerrordesc_np has no buffer to share and no locale to depend on.
  const char* text = strerrordesc_np(error);
  if (text == nullptr) return base::Error(CodeFor(error), "{}: error {}", context, error);
  return base::Error(CodeFor(error), "{}: {}", context, text);
}

}  // namespace berth::platform
