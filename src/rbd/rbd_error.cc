#include "rbd/rbd_error.h"

#include <errno.h>

#include "platform/errno.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::StatusCode;

}  // namespace

base::Status RbdError(int result, std::string_view context) {
  const int error = result < 0 ? -result : result;
  switch (error) {
    case ENOSPC:
      return Error(StatusCode::kResourceExhausted,
                   "{}: the pool or the cluster is full: add storage to it or delete data",
                   context);
    case EDQUOT:
      return Error(StatusCode::kResourceExhausted,
                   "{}: the quota of the pool is used up: raise it or delete data", context);
    case ETIMEDOUT:
      return Error(StatusCode::kDeadlineExceeded,
                   "{}: the cluster gave no answer in time, so the outcome is unknown", context);
    case ESHUTDOWN:
      return Error(StatusCode::kFailedPrecondition,
                   "{}: the cluster refuses this client, because a fence put it on the blocklist",
                   context);
    case EROFS:
      return Error(StatusCode::kFailedPrecondition,
                   "{}: another client has the exclusive lock of the image", context);
    case EBUSY:
      return Error(StatusCode::kFailedPrecondition, "{}: another client uses the image", context);
    case ENOTEMPTY:
      return Error(StatusCode::kFailedPrecondition, "{}: the image has snapshots", context);
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Error(StatusCode::kUnavailable, "{}: the cluster cannot be reached", context);
    default:
      return platform::ErrnoError(error, context);
  }
}

}  // namespace berth::rbd
