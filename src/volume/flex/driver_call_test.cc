#include "volume/flex/driver_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class DriverCallTest : public testing::Test {
 protected:
  void Reply(const std::string& out, int exit_code = 0) {
    exec_.SetAnswer([out, exit_code](const platform::Command&) {
      return platform::CommandResult{.exit_code = exit_code, .out = out, .err = ""};
    });
  }
  void Fail(const base::Status& why) {
    exec_.SetAnswer([why](const platform::Command&) { return why; });
  }
  std::vector<std::string> LastArguments() {
    std::vector<std::string> argv = exec_.commands().back().argv;
    EXPECT_EQ(argv.front(), "/copies/1/nfs");
    return {argv.begin() + 1, argv.end()};
  }

  static constexpr char kSuccess[] = R"({"status": "Success"})";
  static constexpr char kNotSupported[] = R"({"status": "Not supported"})";
  const DriverVersion version_{.driver = "acme/nfs", .executable = "/copies/1/nfs", .id = "1"};
  const DriverOptions options_{.values = {{"a", "b"}}, .secrets = {}};
  FakeExec exec_;
  DriverCalls calls_{exec_};
};

TEST_F(DriverCallTest, EachCommandHasItsArguments) {
  Reply(R"({"status": "Success", "device": "/dev/x", "volumeName": "n", "attached": true})");
  const std::string options = R"({"a":"b"})";
  EXPECT_TRUE(calls_.Init(version_).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("init"));
  EXPECT_EQ(*calls_.GetVolumeName(version_, options_), "n");
  EXPECT_THAT(LastArguments(), ElementsAre("getvolumename", options));
  EXPECT_EQ(*calls_.Attach(version_, options_, api::NodeName("node-a")), "/dev/x");
  EXPECT_THAT(LastArguments(), ElementsAre("attach", options, "node-a"));
  EXPECT_TRUE(calls_.Detach(version_, api::VolumeName("pv-1"), api::NodeName("node-a")).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("detach", "pv-1", "node-a"));
  EXPECT_EQ(*calls_.WaitForAttach(version_, "/dev/y", options_), "/dev/x");
  EXPECT_THAT(LastArguments(), ElementsAre("waitforattach", "/dev/y", options));
  EXPECT_TRUE(*calls_.IsAttached(version_, options_, api::NodeName("node-a")));
  EXPECT_THAT(LastArguments(), ElementsAre("isattached", options, "node-a"));
  EXPECT_TRUE(calls_.MountDevice(version_, platform::StagingPath("/m"), "/dev/x", options_).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("mountdevice", "/m", "/dev/x", options));
  EXPECT_TRUE(calls_.UnmountDevice(version_, platform::StagingPath("/m")).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("unmountdevice", "/m"));
  EXPECT_TRUE(calls_.Mount(version_, platform::TargetPath("/p"), options_).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("mount", "/p", options));
  EXPECT_TRUE(calls_.Unmount(version_, platform::TargetPath("/p")).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("unmount", "/p"));
  const DriverCalls::Growth growth{.folder = "/m", .new_bytes = 20, .old_bytes = 10};
  EXPECT_TRUE(calls_.ExpandVolume(version_, options_, growth).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("expandvolume", options, "/m", "20", "10"));
  EXPECT_TRUE(calls_.ExpandFs(version_, options_, "/dev/x", growth).ok());
  EXPECT_THAT(LastArguments(), ElementsAre("expandfs", options, "/dev/x", "/m", "20", "10"));
}

TEST_F(DriverCallTest, ADeviceThatIsNotSaidIsTheOneThatWasWaitedFor) {
  Reply(kSuccess);
  EXPECT_EQ(*calls_.WaitForAttach(version_, "/dev/y", options_), "/dev/y");
}

TEST_F(DriverCallTest, EachRunHasADeadlineAndABound) {
  Reply(kSuccess);
  (void)calls_.Init(version_);
  (void)calls_.Unmount(version_, platform::TargetPath("/p"));
  (void)calls_.WaitForAttach(version_, "", options_);
  const auto commands = exec_.commands();
  EXPECT_EQ(commands[0].timeout, seconds(30));
  EXPECT_EQ(commands[1].timeout, minutes(2));
  EXPECT_EQ(commands[2].timeout, minutes(10));
  EXPECT_EQ(commands[0].max_output, kMaxDriverReply + 1);
}

TEST_F(DriverCallTest, WhatIsNotSupportedIsNotAskedAgainUntilInit) {
  Reply(kNotSupported, 1);
  EXPECT_EQ(calls_.Mount(version_, platform::TargetPath("/p"), options_).code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(calls_.Mount(version_, platform::TargetPath("/p"), options_).code(),
            StatusCode::kUnimplemented);
  EXPECT_THAT(exec_.commands(), SizeIs(1));
  // Another command, or another version, is asked.
  EXPECT_EQ(calls_.Unmount(version_, platform::TargetPath("/p")).code(),
            StatusCode::kUnimplemented);
  DriverVersion other = version_;
  other.id = "2";
  Reply(kSuccess);
  EXPECT_TRUE(calls_.Mount(other, platform::TargetPath("/p"), options_).ok());
  EXPECT_TRUE(calls_.Init(version_).ok());
  EXPECT_TRUE(calls_.Mount(version_, platform::TargetPath("/p"), options_).ok());
  EXPECT_THAT(exec_.commands(), SizeIs(5));
}

TEST_F(DriverCallTest, ADriverThatDoesNotSupportInitIsNone) {
  Reply(kNotSupported);
  EXPECT_EQ(calls_.Init(version_).status().code(), StatusCode::kInternal);
  EXPECT_EQ(calls_.Init(version_).status().code(), StatusCode::kInternal);
  EXPECT_THAT(exec_.commands(), SizeIs(2));
}

TEST_F(DriverCallTest, AFailureNamesTheDriverAndTheCommandAndNoOptions) {
  DriverOptions options;
  options.values["kubernetes.io/secret/key"] = "aHVudGVyMi1odW50ZXIy";
  options.secrets.Add("hunter2-hunter2");
  Reply(R"({"status": "Failure", "message": "aHVudGVyMi1odW50ZXIy is wrong"})", 1);
  EXPECT_EQ(base::ToString(calls_.Mount(version_, platform::TargetPath("/p"), options)),
            "INTERNAL: Flexvolume driver 'acme/nfs': mount: mount command failed, status: Failure, "
            "reason: [redacted] is wrong");
  Fail(base::Error(StatusCode::kDeadlineExceeded, "/copies/1/nfs did not end within 1 ms"));
  EXPECT_THAT(base::ToString(calls_.Mount(version_, platform::TargetPath("/p"), options)),
              Not(HasSubstr("aHVud")));
}

TEST_F(DriverCallTest, TheOutcomeOfADriverThatWasKilledIsUnknown) {
  Fail(base::Error(StatusCode::kDeadlineExceeded, "did not end"));
  EXPECT_EQ(calls_.Mount(version_, platform::TargetPath("/p"), options_).code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(DriverCallTest, ADriverThatCannotBeRunDidNothing) {
  Fail(base::Error(StatusCode::kNotFound, "run '/copies/1/nfs': No such file or directory"));
  EXPECT_EQ(base::ToString(calls_.Mount(version_, platform::TargetPath("/p"), options_)),
            "FAILED_PRECONDITION: Flexvolume driver 'acme/nfs': mount: the driver cannot be run: "
            "NOT_FOUND: run '/copies/1/nfs': No such file or directory");
}

TEST_F(DriverCallTest, NothingIsCalledOnceTheProcessEnds) {
  Reply(kSuccess);
  calls_.CancelCalls();
  EXPECT_EQ(calls_.Mount(version_, platform::TargetPath("/p"), options_).code(),
            StatusCode::kCancelled);
  EXPECT_THAT(exec_.commands(), SizeIs(0));
}

TEST(DriverCallProcess, OneThatRunsIsEndedWhenNobodyWaits) {
  const platform::TempFolder folder;
  const std::string script = folder / "sleepy";
  ASSERT_TRUE(
      platform::WriteDurably<"test.file">(script, "#!/bin/sh\nexec sleep 1000\n", 0755).ok());
  const auto exec = platform::NewHostExec();
  DriverCalls calls(*exec);
  // Its Cancel may come before the process or after.
  std::jthread cancel([&calls] { calls.CancelCalls(); });
  const DriverVersion version{.driver = "sleepy", .executable = script, .id = "1"};
  EXPECT_EQ(calls.Unmount(version, platform::TargetPath("/p")).code(), StatusCode::kCancelled);
}

TEST_F(DriverCallTest, PassesAFaultPointBeforeAndAfter) {
  Reply(kSuccess);
  base::FakeFaults faults("flex.mount.before=error");
  EXPECT_FALSE(calls_.Mount(version_, platform::TargetPath("/p"), options_).ok());
  EXPECT_THAT(exec_.commands(), SizeIs(0));
}

}  // namespace
}  // namespace berth::volume
