#include "controllers/driver_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <sstream>
#include <thread>

#include "base/metrics.h"
#include "controllers/call_metrics.h"
#include "rpc/fake_csi_driver.h"

namespace berth::controllers {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::Not;

class DriverCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = rpc::FakeCsiDriver::Start({});
    ASSERT_TRUE(started.ok()) << started.status();
    driver_ = *std::move(started);
    auto made = DriverConnection::New(
        driver_->socket(), {.metrics = &metrics_, .may_call = [this] { return leading_.load(); }});
    ASSERT_TRUE(made.ok()) << made.status();
    connection_ = *std::move(made);
    connection_->OnReady([this] {
      base::MutexLock lock(mutex_);
      ready_ = true;
      ++times_ready_;
      changed_.NotifyAll();
    });
    connection_->Start();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (!ready_) ASSERT_TRUE(changed_.WaitUntil(mutex_, deadline) || ready_);
  }

  base::Status Delete(const std::string& volume) {
    csi::v1::DeleteVolumeRequest request;
    request.set_volume_id(volume);
    return connection_->Call(&rpc::CsiClient::DeleteVolume, request, std::chrono::seconds(5))
        .status();
  }

  base::Metrics metrics_;
  std::atomic<bool> leading_ = true;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  int times_ready_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<DriverConnection> connection_;
};

TEST_F(DriverCallsTest, CountsEachCallAsTheSidecarsDo) {
  EXPECT_TRUE(Delete("none").ok());
  EXPECT_EQ(Delete("").code(), StatusCode::kInvalidArgument);
  const std::string text = metrics_.RenderText();
  const auto counted = [](std::string_view driver, std::string_view code, std::string_view method) {
    return HasSubstr(
        fmt::format("csi_sidecar_operations_seconds_count{{driver_name=\"{}\",grpc_status_code=\"{}"
                    "\",method_name=\"{}\"}} 1\n",
                    driver, code, method));
  };
  EXPECT_THAT(text, counted(driver_->name(), "OK", "/csi.v1.Controller/DeleteVolume"));
  EXPECT_THAT(text, counted(driver_->name(), "InvalidArgument", "/csi.v1.Controller/DeleteVolume"));
  EXPECT_THAT(text, counted("unknown-driver", "OK", "/csi.v1.Identity/Probe"));
  EXPECT_THAT(text, HasSubstr("le=\"0.1\"")) << "the sidecars' buckets";
  EXPECT_THAT(text, HasSubstr("le=\"600\""));
}

TEST_F(DriverCallsTest, WhoMayNotCallCallsNothing) {
  leading_ = false;
  EXPECT_EQ(Delete("none").code(), StatusCode::kUnavailable);
  EXPECT_THAT(metrics_.RenderText(), Not(HasSubstr("DeleteVolume")));
  leading_ = true;
  EXPECT_TRUE(Delete("none").ok()) << "the connection is not taken for lost";
}

// Between two terms of a leader another driver's socket took the place of this driver's socket.
TEST_F(DriverCallsTest, AnotherDriverIsNotTakenForTheOneThatIsServed) {
  connection_->Stop();
  auto made = DriverConnection::New(driver_->socket(), {.retry_start = std::chrono::milliseconds(1),
                                                        .metrics = &metrics_,
                                                        .driver = "other.csi.example.com"});
  ASSERT_TRUE(made.ok());
  std::atomic<bool> ready = false;
  (*made)->OnReady([&] { ready = true; });
  (*made)->Start();
  const int before = driver_->script().Count("GetPluginInfo");
  ASSERT_TRUE(driver_->script().WaitFor("GetPluginInfo", before + 3)) << "it is asked again";
  EXPECT_FALSE(ready);
  EXPECT_EQ((*made)->info(), nullptr);
}

TEST_F(DriverCallsTest, WhatWasNotSentIsMarked) {
  leading_ = false;
  EXPECT_TRUE(rpc::WasNotSent(Delete("none")));
  leading_ = true;
  driver_->script().Fail("DeleteVolume", base::Error(StatusCode::kUnavailable, "later"));
  EXPECT_FALSE(rpc::WasNotSent(Delete("none"))) << "the driver answered";
  driver_->GoAway();
  while (!rpc::WasNotSent(Delete("none"))) {  // the first may find the connection that was
  }
}

TEST_F(DriverCallsTest, OneThatIsThereAndSaysUnavailableHasNotComeBack) {
  driver_->script().Fail("DeleteVolume", base::Error(StatusCode::kUnavailable, "later"),
                         rpc::CallScript::kAlways);
  for (const int reads : {2, 3}) {
    EXPECT_EQ(Delete("none").code(), StatusCode::kUnavailable);
    ASSERT_TRUE(driver_->script().WaitFor("ControllerGetCapabilities", reads));
  }
  base::MutexLock lock(mutex_);
  EXPECT_EQ(times_ready_, 1);
}

TEST_F(DriverCallsTest, OneThatIsLostWhileItIsReadIsReadAgain) {
  driver_->script().Fail("DeleteVolume", base::Error(StatusCode::kUnavailable, "later"), 2);
  driver_->script().Hang("ControllerGetCapabilities");
  EXPECT_EQ(Delete("none").code(), StatusCode::kUnavailable);
  ASSERT_TRUE(driver_->script().WaitFor("ControllerGetCapabilities", 2));
  EXPECT_EQ(Delete("none").code(), StatusCode::kUnavailable);
  driver_->script().Release("ControllerGetCapabilities");
  EXPECT_TRUE(driver_->script().WaitFor("ControllerGetCapabilities", 3));
}

TEST_F(DriverCallsTest, WhoMayCallNoLongerEndsWhatRuns) {
  driver_->script().Hang("DeleteVolume");
  base::Status ended;
  std::jthread caller([&] { ended = Delete("none"); });
  ASSERT_TRUE(driver_->script().WaitFor("DeleteVolume"));
  connection_->CancelCalls();
  caller.join();
  EXPECT_EQ(ended.code(), StatusCode::kCancelled);
  EXPECT_FALSE(rpc::WasNotSent(ended)) << "what it did is unknown";
  EXPECT_EQ(Delete("none").code(), StatusCode::kCancelled);
}

// Reads a driver of the name once, and returns the methods of the calls that are counted under
// "unknown-driver".
std::set<std::string> UnnamedCalls(const std::string& name, DriverConnection::Options options) {
  auto driver = rpc::FakeCsiDriver::Start({.name = name});
  EXPECT_TRUE(driver.ok()) << driver.status();
  base::Metrics metrics;
  options.metrics = &metrics;
  auto connection = DriverConnection::New((*driver)->socket(), options);
  EXPECT_TRUE(connection.ok()) << connection.status();
  std::promise<void> ready;
  (*connection)->OnReady([&] { ready.set_value(); });
  (*connection)->Start();
  EXPECT_EQ(ready.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  (*connection)->Stop();
  std::set<std::string> methods;
  std::istringstream lines(metrics.RenderText());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("csi_sidecar_operations_seconds_count{driver_name=\"unknown-driver\"")) {
      continue;
    }
    const size_t end = line.rfind('"');
    const size_t start = line.rfind('/', end) + 1;
    methods.insert(line.substr(start, end - start));
  }
  return methods;
}

TEST(FirstCallsTest, AreUnnamedAsInEachGoProgram) {
  using testing::ElementsAre;
  const std::string plain = "plain.csi.example.com";
  EXPECT_THAT(UnnamedCalls(plain, {.label_migrated = true}), ElementsAre("GetPluginInfo", "Probe"));
  EXPECT_THAT(
      UnnamedCalls(plain,
                   {.label_migrated = true, .first_calls = FirstCalls::kNamedAfterCapabilities}),
      ElementsAre("ControllerGetCapabilities", "GetPluginCapabilities", "GetPluginInfo", "Probe"));
  EXPECT_THAT(UnnamedCalls(plain, {.first_calls = FirstCalls::kNamedBeforeProbe}),
              ElementsAre("GetPluginInfo"));
  EXPECT_THAT(UnnamedCalls(plain, {.driver = plain}), testing::IsEmpty())
      << "the connection of a term knows the name";
}

TEST(FirstCallsTest, OfADriverThatReplacesAPluginAreNotCounted) {
  for (const FirstCalls calls :
       {FirstCalls::kNamedByPluginInfo, FirstCalls::kNamedAfterCapabilities}) {
    EXPECT_THAT(UnnamedCalls("ebs.csi.aws.com", {.label_migrated = true, .first_calls = calls}),
                testing::IsEmpty());
  }
  EXPECT_THAT(UnnamedCalls("ebs.csi.aws.com", {}), testing::SizeIs(2))
      << "the snapshotter knows no plugins";
}

TEST(CallMetricsTest, CodesAsGoPrintsThem) {
  EXPECT_EQ(GoCodeName(StatusCode::kOk), "OK");
  EXPECT_EQ(GoCodeName(StatusCode::kCancelled), "Canceled");
  EXPECT_EQ(GoCodeName(StatusCode::kDeadlineExceeded), "DeadlineExceeded");
  EXPECT_EQ(GoCodeName(StatusCode::kUnauthenticated), "Unauthenticated");
}

}  // namespace
}  // namespace berth::controllers
