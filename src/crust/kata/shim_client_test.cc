#include "crust/kata/shim_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "crust/kata/fake_shim.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust::kata {
namespace {

using base::StatusCode;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;
using Usage = ::crust::v1alpha1::VolumeUsage;

constexpr milliseconds kLong{30000};

class ShimClientTest : public testing::Test {
 protected:
  auto Ask(milliseconds timeout = kLong) { return AskForStats(socket_, "/dev/sd%f x", timeout); }
  StatusCode CodeWith(const std::string& answer, milliseconds timeout = kLong) {
    shim_.AnswerWith({answer});
    return Ask(timeout).status().code();
  }

  const platform::TempFolder folder_;
  const std::string socket_ = folder_ / "shim.sock";
  FakeShim shim_{socket_};
};

TEST_F(ShimClientTest, TheNumbersOfAVolumeAreRead) {
  shim_.AnswerWith({FakeShim::Stats(1000, 100)});
  const auto stats = Ask();
  ASSERT_OK(stats);
  ASSERT_EQ(stats->usage_size(), 2);
  EXPECT_EQ(stats->usage(0).unit(), Usage::BYTES);
  EXPECT_EQ(stats->usage(0).total(), 1000);
  EXPECT_EQ(stats->usage(0).used(), 100);
  EXPECT_EQ(stats->usage(0).available(), 900);
  EXPECT_EQ(stats->usage(1).unit(), Usage::INODES);
  EXPECT_FALSE(stats->volume_condition().abnormal());
  EXPECT_EQ(stats->volume_condition().message(), "OK");
  // HTTP takes one escaping off, and the shim the other one.
  EXPECT_THAT(shim_.requests().front(),
              StartsWith("GET /direct-volume/stats?path=%252Fdev%252Fsd%2525f%2520x HTTP/1.1\r\n"));
}

TEST_F(ShimClientTest, AnEmptyFileSystemHasNoMemberUsed) {
  shim_.AnswerWith({FakeShim::Ok(R"({"usage":[{"available":7,"total":7,"unit":1}]})")});
  const auto stats = Ask();
  ASSERT_OK(stats);
  EXPECT_EQ(stats->usage(0).used(), 0);
}

TEST_F(ShimClientTest, AnAnswerThatMakesNoSenseIsRefused) {
  for (const char* body :
       {"", "Usage: [VolumeUsage]", "[]", "{}", R"({"usage":[{"total":1,"unit":2}]})",
        R"({"usage":[{"total":-1,"unit":1}]})", R"({"usage":[{"total":"1","unit":1}]})",
        R"({"usage":[{"total":18446744073709551615,"unit":1}]})",
        R"({"usage":[{"total":1,"used":2,"unit":1}]})",
        R"({"usage":[{"total":2,"used":1,"available":2,"unit":1}]})",
        R"({"usage":[{"total":1,"unit":7}]})",
        R"({"usage":[{"total":1,"unit":1},{"total":1,"unit":1}]})"}) {
    EXPECT_EQ(CodeWith(FakeShim::Ok(body)), StatusCode::kInternal) << body;
  }
  EXPECT_EQ(CodeWith(FakeShim::Ok(std::string(100'000, ' '))), StatusCode::kInternal);
}

TEST_F(ShimClientTest, ARefusalIsToldInTheWordsOfTheShim) {
  shim_.AnswerWith({FakeShim::Answer("500 Internal Server Error", "mount /dev/x not found\n")});
  const auto refused = Ask().status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(refused), HasSubstr("mount /dev/x not found"));
}

TEST_F(ShimClientTest, ABrokenAnswerIsNotTakenForAWholeOne) {
  EXPECT_EQ(CodeWith("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"usage\":[]}"),
            StatusCode::kUnavailable);
  EXPECT_EQ(CodeWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"us"),
            StatusCode::kUnavailable);
  EXPECT_NE(CodeWith("nonsense\r\n\r\n"), StatusCode::kOk);
}

TEST_F(ShimClientTest, AShimThatHangsIsGivenUp) {
  EXPECT_EQ(CodeWith("", milliseconds(200)), StatusCode::kDeadlineExceeded);
}

TEST_F(ShimClientTest, WhereNoShimListensNothingIsFound) {
  EXPECT_EQ(AskForStats(folder_ / "none.sock", "/dev/x", kLong).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ShimClientTest, AVolumeIsAskedToGrow) {
  shim_.AnswerWith({FakeShim::Ok("")});
  ASSERT_OK(AskToGrow(socket_, "/dev/sdf", 1 << 30, kLong));
  const std::string request = shim_.requests().front();
  EXPECT_THAT(request, StartsWith("POST /direct-volume/resize HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr(R"({"Size":1073741824,"VolumePath":"/dev/sdf"})"));
}

TEST_F(ShimClientTest, AnAgentThatCannotGrowVolumesIsTold) {
  shim_.AnswerWith({FakeShim::Answer(
      "500 Internal Server Error",
      "rpc error: code = Unimplemented desc = resize_volume is not implemented in kata-agent")});
  EXPECT_EQ(AskToGrow(socket_, "/dev/sdf", 1, kLong).code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace berth::crust::kata
