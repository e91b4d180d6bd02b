#include "rbd/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "base/json_input.h"
#include "base/unique_fd.h"

namespace berth::rbd {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

Json RequestJson(const char* call) {
  return {{"call", call},
          {"node", "n1"},
          {"cluster",
           {{"monitors", {"10.0.0.1:6789"}}, {"pool", "p"}, {"user", "u"}, {"key", "c2VjcmV0"}}}};
}

std::string RequestFailure(const Json& request) {
  const auto reply = RunCall(request, [](double) {});
  EXPECT_EQ(reply.status().code(), StatusCode::kInvalidArgument);
  return std::string(base::Message(reply.status()));
}

base::StatusOr<Json> Read(std::string_view text) {
  const base::UniqueFd file(memfd_create("request", MFD_CLOEXEC));
  EXPECT_EQ(base::WriteAll(file.get(), text), 0);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_SET), 0);
  return ReadRequest(file.get());
}

TEST(RequestTest, AnUnknownCallIsRefused) {
  EXPECT_THAT(RequestFailure(RequestJson("format")), HasSubstr("there is no call 'format'"));
}

TEST(RequestTest, ACallNeedsANodeAndACluster) {
  Json request = RequestJson("list");
  request["node"] = "a/b";
  EXPECT_THAT(RequestFailure(request), HasSubstr("node"));
  request = RequestJson("list");
  request.erase("cluster");
  EXPECT_THAT(RequestFailure(request), HasSubstr("cluster is missing"));
}

TEST(RequestTest, TextThatIsNoObjectIsRefusedAndNotQuoted) {
  for (const char* text : {"", "[]", R"({"key": "c2VjcmV0")"}) {
    const auto request = Read(text);
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(base::Message(request.status())), Not(HasSubstr("c2VjcmV0")));
  }
  EXPECT_TRUE(Read(R"({"call": "list"})").ok());
}

TEST(RequestTest, ALongRequestIsRefused) {
  const auto request = Read("{\"a\": \"" + std::string(kLongestRequest, 'a') + "\"}");
  EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(request.status())), HasSubstr("60000 bytes"));
}

TEST(RequestTest, AFailureHasItsCodeAndItsMessage) {
  const Json reply =
      base::json::FailureReply(base::Error(StatusCode::kNotFound, "there is no pool 'p'"));
  EXPECT_EQ(base::json::String(reply, {"error", "code"}), "NOT_FOUND");
  EXPECT_EQ(base::json::String(reply, {"error", "message"}), "there is no pool 'p'");
}

}  // namespace
}  // namespace berth::rbd
