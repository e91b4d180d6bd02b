// The code of a Status for a call of base/ipc that failed.
#pragma once

#include "base/ipc/result.h"
#include "base/status.h"

namespace berth::block::proxy {

// The code of a refusal is FAILED_PRECONDITION, except for DATA_LOSS, which the peer says itself.
inline base::StatusCode CodeOf(const base::ipc::Failure& failure) {
  switch (failure.problem) {
    case base::ipc::Problem::kNobody:
    case base::ipc::Problem::kClosed:
      return base::StatusCode::kUnavailable;
    case base::ipc::Problem::kTimeout:
      return base::StatusCode::kDeadlineExceeded;
    case base::ipc::Problem::kNotAllowed:
      return base::StatusCode::kPermissionDenied;
    case base::ipc::Problem::kRefused:
      return failure.code == base::CodeName(base::StatusCode::kDataLoss)
                 ? base::StatusCode::kDataLoss
                 : base::StatusCode::kFailedPrecondition;
    default:
      return base::StatusCode::kInternal;
  }
}

}  // namespace berth::block::proxy
