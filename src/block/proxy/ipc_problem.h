// The code of a Status for a call of base/ipc that failed.
#pragma once

#include "base/ipc/result.h"
#include "base/status.h"

namespace berth::block::proxy {

inline base::StatusCode CodeOf(base::ipc::Problem problem) {
  switch (problem) {
    case base::ipc::Problem::kNobody:
    case base::ipc::Problem::kClosed:
      return base::StatusCode::kUnavailable;
    case base::ipc::Problem::kTimeout:
      return base::StatusCode::kDeadlineExceeded;
    case base::ipc::Problem::kNotAllowed:
      return base::StatusCode::kPermissionDenied;
    case base::ipc::Problem::kRefused:
      return base::StatusCode::kFailedPrecondition;
    default:
      return base::StatusCode::kInternal;
  }
}

}  // namespace berth::block::proxy
