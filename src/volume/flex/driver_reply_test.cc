#include "volume/flex/driver_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

base::StatusOr<DriverReply> Read(const std::string& out, int exit_code = 0,
                                 const std::string& err = "", const SecretWords& secrets = {}) {
  return ReadDriverReply("mount", {.exit_code = exit_code, .out = out, .err = err}, secrets);
}

std::string Failure(const base::StatusOr<DriverReply>& reply) {
  return base::ToString(reply.status());
}

TEST(DriverReply, HasWhatTheDriverSays) {
  const auto reply = Read(R"({"status": "Success", "message": "done", "device": "/dev/sdx",
      "volumeName": "v", "attached": true, "volumeNewSize": 9223372036854775807})"
                          "\n");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, "done");
  EXPECT_EQ(reply->device, "/dev/sdx");
  EXPECT_EQ(reply->volume_name, "v");
  EXPECT_TRUE(reply->attached);
  EXPECT_EQ(reply->volume_new_size, INT64_MAX);
}

TEST(DriverReply, AbsentMembersAndNullsHaveTheirDefaults) {
  const auto reply = Read(R"({"status": "Success", "device": null, "capabilities": null})");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->device, "");
  EXPECT_FALSE(reply->attached);
  EXPECT_FALSE(reply->volume_new_size.has_value());
  EXPECT_TRUE(reply->capabilities.attach);
  EXPECT_TRUE(reply->capabilities.selinux_relabel);
  EXPECT_FALSE(reply->capabilities.supports_metrics);
  EXPECT_TRUE(reply->capabilities.fs_group);
  EXPECT_TRUE(reply->capabilities.requires_fs_resize);
}

TEST(DriverReply, MembersAreFoundWhateverTheirCase) {
  const auto reply = Read(R"({"Status": "Success", "CAPABILITIES": {"Attach": false,
      "selinuxrelabel": false, "SupportsMetrics": true, "FSGROUP": false,
      "RequiresFsResize": false}})");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->capabilities.attach);
  EXPECT_FALSE(reply->capabilities.selinux_relabel);
  EXPECT_TRUE(reply->capabilities.supports_metrics);
  EXPECT_FALSE(reply->capabilities.fs_group);
  EXPECT_FALSE(reply->capabilities.requires_fs_resize);
}

TEST(DriverReply, ItsOwnCaseCountsBeforeAnother) {
  const auto reply = Read(R"({"status": "Success", "DEVICE": "/a", "device": "/b"})");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->device, "/b");
}

TEST(DriverReply, FailureHasTheReasonAndMeansThatNothingHappened) {
  for (const int exit_code : {0, 1}) {
    EXPECT_EQ(Failure(Read(R"({"status": "Failure", "message": "no such share"})", exit_code)),
              "INTERNAL: mount command failed, status: Failure, reason: no such share");
  }
  EXPECT_EQ(Failure(Read(R"({"status": "Failure"})", 1, "mount: permission denied\n")),
            "INTERNAL: mount command failed, status: Failure, reason: none given; on standard "
            "error: mount: permission denied");
}

TEST(DriverReply, AnUnknownStatusIsAFailureThatSaysSo) {
  EXPECT_EQ(Failure(Read(R"({"status": "OK"})")),
            "INTERNAL: mount command failed, status: OK (which is none of Success, Failure and Not "
            "supported), reason: none given");
  EXPECT_EQ(Read(R"({"status": "success"})").status().code(), StatusCode::kInternal);
}

TEST(DriverReply, NotSupportedCountsWithAnyExitCode) {
  for (const int exit_code : {0, 1, 127}) {
    EXPECT_EQ(Read(R"({"status": "Not supported"})", exit_code).status().code(),
              StatusCode::kUnimplemented);
  }
}

TEST(DriverReply, SuccessWithAnExitCodeThatSaysOtherwiseIsUnknown) {
  EXPECT_EQ(Failure(Read(R"({"status": "Success"})", 3)),
            "UNAVAILABLE: mount: what it did is unknown, because the driver says Success and exit "
            R"(code 3: {"status": "Success"})");
  EXPECT_THAT(Failure(Read(R"({"status": "Success"})", 137)), HasSubstr("ended by signal 9"));
}

TEST(DriverReply, WhatIsNoReplyIsUnknownAndShown) {
  struct Case {
    std::string printed;
    const char* why;
  };
  const std::vector<Case> cases = {
      {"", "it is empty"},
      {"mounting...\n{\"status\": \"Success\"}", "something else stands before its JSON object"},
      {"{\"status\": \"Success\"}\ndone", "it is no JSON"},
      {"{\"status\": \"Success\"", "it is no JSON"},
      {"Success", "it is no JSON"},
      {"[]", "it is no JSON object"},
      {"\"Success\"", "it is no JSON object"},
      {"{}", "it has no 'status'"},
      {R"({"status": ""})", "it has no 'status'"},
      {R"({"status": null})", "it has no 'status'"},
      {R"({"status": true})", "'status' is of type boolean, and has to be a string"},
      {R"({"status": "Success", "attached": "true"})", "'attached' is of type string"},
      {R"({"status": "Success", "device": 3})", "'device' is of type number"},
      {R"({"status": "Success", "capabilities": []})", "'capabilities' is of type array"},
      {R"({"status": "Success", "capabilities": {"attach": "no"}})", "'attach' is of type string"},
      {R"({"status": "Success", "volumeNewSize": 1.5})", "whole number"},
      {R"({"status": "Success", "volumeNewSize": "1"})", "whole number"},
      {R"({"status": "Success", "volumeNewSize": 9223372036854775808})", "whole number"},
      {R"({"status": )" + std::string(20, '[') + std::string(20, ']') + "}", "it is no JSON"},
      {std::string(kMaxDriverReply + 1, '{'), "it is longer than 64 KiB"},
  };
  for (const Case& test : cases) {
    const auto reply = Read(test.printed);
    EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable) << test.printed;
    EXPECT_THAT(Failure(reply), AllOf(HasSubstr("what it did is unknown"), HasSubstr(test.why)));
    const std::string printed = test.printed.substr(0, test.printed.find('\n')).substr(0, 100);
    EXPECT_THAT(Failure(reply), HasSubstr(printed));
    EXPECT_LT(Failure(reply).size(), 2048u);
  }
}

TEST(DriverReply, WhatStandsOnStandardErrorBesideAReplyIsALog) {
  const auto reply = Read(R"({"status": "Success", "device": "/dev/x"})", 0, "+ mount -t nfs\n");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->device, "/dev/x");
}

TEST(DriverReply, AReplyOnStandardErrorAloneCounts) {
  const auto reply = Read(" \n", 0, R"({"status": "Success", "device": "/dev/x"})");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->device, "/dev/x");
  EXPECT_EQ(Read("", 1, R"({"status": "Not supported"})").status().code(),
            StatusCode::kUnimplemented);
}

TEST(DriverReply, FailuresShowNoSecretWhereverItStands) {
  SecretWords secrets;
  secrets.Add("hunter2-hunter2");
  const auto hidden = AllOf(HasSubstr("[redacted]"), Not(HasSubstr("hunter2")));
  EXPECT_THAT(Failure(Read("+ login hunter2-hunter2", 1, "", secrets)), hidden);
  EXPECT_THAT(Failure(Read(R"({"status": "Failure", "message": "bad key hunter2-hunter2"})", 1, "",
                           secrets)),
              hidden);
  EXPECT_THAT(Failure(Read(R"({"status": "hunter2-hunter2"})", 1, "", secrets)), hidden);
  EXPECT_THAT(Failure(Read(R"({"status": "Failure"})", 1, "key hunter2-hunter2", secrets)), hidden);
  EXPECT_THAT(
      Failure(Read(R"({"status": "Success", "message": "hunter2-hunter2"})", 1, "", secrets)),
      hidden);
}

}  // namespace
}  // namespace berth::volume
