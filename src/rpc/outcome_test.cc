#include "rpc/outcome.h"

#include <gtest/gtest.h>

namespace berth::rpc {
namespace {

using base::StatusCode;

TEST(OutcomeTest, OnlyCodesThatProveNothingHappenedAreFinal) {
  const std::map<StatusCode, bool> table = {
      {StatusCode::kOk, false},
      {StatusCode::kCancelled, false},
      {StatusCode::kUnknown, true},
      {StatusCode::kInvalidArgument, true},
      {StatusCode::kDeadlineExceeded, false},
      {StatusCode::kNotFound, true},
      {StatusCode::kAlreadyExists, true},
      {StatusCode::kPermissionDenied, true},
      {StatusCode::kResourceExhausted, false},
      {StatusCode::kFailedPrecondition, true},
      {StatusCode::kAborted, false},
      {StatusCode::kOutOfRange, true},
      {StatusCode::kUnimplemented, true},
      {StatusCode::kInternal, true},
      {StatusCode::kUnavailable, false},
      {StatusCode::kDataLoss, true},
      {StatusCode::kUnauthenticated, true},
  };
  for (const auto& [code, final] : table) {
    EXPECT_EQ(IsFinal(base::Status(code, "x")), final) << base::CodeName(code);
  }
}

TEST(OutcomeTest, CodesCrossUnchanged) {
  for (int code = 1; code <= 16; ++code) {
    const base::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(base::Message(status), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
  }
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_TRUE(ToGrpc(base::OkStatus()).ok());
}

TEST(OutcomeTest, AnEmptyMessageBecomesTheCodesName) {
  EXPECT_EQ(base::Message(FromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, ""))), "NOT_FOUND");
  EXPECT_EQ(ToGrpc(base::Status(StatusCode::kAborted, "")).error_message(), "ABORTED");
}

}  // namespace
}  // namespace berth::rpc
