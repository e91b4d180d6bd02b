#include "rpc/csi_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <future>
#include <sstream>

#include "base/fake_faults.h"
#include "rpc/fake_csi_driver.h"
#include "rpc/unix_socket.h"

namespace berth::rpc {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class CsiClientTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = FakeCsiDriver::Start();
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    auto client = CsiClient::New(driver_->socket());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  std::unique_ptr<FakeCsiDriver> driver_;
  std::unique_ptr<CsiClient> client_;
};

TEST_F(CsiClientTest, CallsReachTheDriverAndAnswersComeBack) {
  const auto info = client_->GetPluginInfo({}, 5s);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name(), "fake.csi.example.com");

  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-1");
  request.add_volume_capabilities()->mutable_mount();
  request.mutable_capacity_range()->set_required_bytes(4096);
  const auto made = client_->CreateVolume(request, 5s);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->volume().capacity_bytes(), 4096);
  const auto again = client_->CreateVolume(request, 5s);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->volume().volume_id(), made->volume().volume_id());
  EXPECT_THAT(driver_->script().Methods(),
              ElementsAre("GetPluginInfo", "CreateVolume", "CreateVolume"));
}

TEST_F(CsiClientTest, ADriversErrorNamesTheCall) {
  driver_->script().Fail("NodeStageVolume", base::Status(StatusCode::kNotFound, "no such volume"));
  const auto result = client_->NodeStageVolume({}, 5s);
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(base::Message(result.status()), "NodeStageVolume: no such volume");
}

TEST_F(CsiClientTest, TheLogShowsCallsWithoutTheirSecrets) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  const auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id("vol-1");
  (*request.mutable_secrets())["password"] = "hunter2";
  const auto result = client_->DeleteVolume(request, 5s);
  spdlog::set_default_logger(before);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(text.str(), HasSubstr("DeleteVolume"));
  EXPECT_THAT(text.str(), HasSubstr("vol-1"));
  EXPECT_THAT(text.str(), HasSubstr("<1 stripped>"));
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("hunter2")));
}

TEST_F(CsiClientTest, ALongErrorMessageArrives) {
  driver_->script().Fail(
      "Probe", base::Status(StatusCode::kInternal, base::ToAbsl(std::string(20'000, 'x'))));
  const auto result = client_->Probe({}, 5s);
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
  EXPECT_GT(result.status().message().size(), 20'000u);
}

// gRPC gives these two failures the code RESOURCE_EXHAUSTED, as if the driver had refused.
TEST_F(CsiClientTest, AnAnswerBeyondTheLimitLeavesTheOutcomeUnknown) {
  driver_->state().options().manifest = {{"long", std::string(17 << 20, 'x')}};
  const auto result = client_->GetPluginInfo({}, 20s);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable) << result.status();
  EXPECT_FALSE(WasNotSent(result.status()));
}
TEST_F(CsiClientTest, AnErrorTextBeyondTheLimitLeavesTheOutcomeUnknown) {
  driver_->script().Fail(
      "Probe", base::Status(StatusCode::kInternal, base::ToAbsl(std::string(200'000, 'x'))));
  const auto result = client_->Probe({}, 20s);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable) << result.status();
}

TEST_F(CsiClientTest, ADriversOwnRefusalStaysWhatItIs) {
  driver_->script().Fail("Probe", base::Status(StatusCode::kResourceExhausted, "pool is full"));
  EXPECT_EQ(client_->Probe({}, 5s).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(CsiClientTest, ADriverThatHangsEndsAtTheDeadline) {
  driver_->script().Hang("Probe");
  const auto start = Clock::now();
  const auto result = client_->Probe({}, 200ms);
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(IsFinal(result.status()));
  EXPECT_GE(Clock::now() - start, 200ms);
  EXPECT_LT(Clock::now() - start, 5s);
  driver_->script().Release("Probe");
  EXPECT_TRUE(client_->Probe({}, 5s).ok());
}

// A process that is stopped listens and never speaks.
TEST_F(CsiClientTest, AListenerThatNeverSpeaksEndsAtTheDeadline) {
  const std::string socket = driver_->socket() + ".mute";
  const auto listener = ListenAt(socket);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto client = CsiClient::New(socket);
  ASSERT_TRUE(client.ok());
  const auto start = Clock::now();
  const auto result = (*client)->Probe({}, 300ms);
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded) << result.status();
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST_F(CsiClientTest, WithoutADriverCallsFailAtOnce) {
  driver_->GoAway();
  const auto start = Clock::now();
  for (int i = 0; i < 5; ++i) {
    const auto result = client_->Probe({}, 30s);
    EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(base::Message(result.status())), HasSubstr(driver_->socket()));
    EXPECT_FALSE(IsFinal(result.status()));
  }
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST_F(CsiClientTest, ADriverThatComesBackIsUsedAtOnce) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client_->Probe({}, 5s).ok());
    driver_->GoAway();
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(client_->Probe({}, 5s).status().code(), StatusCode::kUnavailable);
    }
    ASSERT_TRUE(driver_->ComeBack().ok());
    const auto result = client_->Probe({}, 5s);
    EXPECT_TRUE(result.ok()) << result.status();
  }
}

TEST_F(CsiClientTest, ADriverThatDiesInMidCallGivesAnUnknownOutcome) {
  driver_->script().Hang("NodeUnstageVolume");
  csi::v1::NodeUnstageVolumeRequest request;
  request.set_volume_id("v");
  request.set_staging_target_path("/nowhere");
  auto call = std::async(std::launch::async,
                         [&] { return client_->NodeUnstageVolume(request, 30s).status(); });
  ASSERT_TRUE(driver_->script().WaitFor("NodeUnstageVolume"));
  driver_->script().LoseAnswer("NodeUnstageVolume");
  driver_->GoAway();
  const base::Status status = call.get();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(IsFinal(status)) << status;
}

TEST_F(CsiClientTest, AnAnswerThatIsCutOffGivesAnUnknownOutcomeOfADoneCall) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-1");
  request.add_volume_capabilities()->mutable_mount();
  const base::FakeFaults faults("rpc.csi.CreateVolume.after=cut@1");
  const auto lost = client_->CreateVolume(request, 5s);
  EXPECT_EQ(lost.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(base::Message(lost.status())),
              HasSubstr("CreateVolume: the connection was cut"));
  EXPECT_FALSE(IsFinal(lost.status()));
  EXPECT_THAT(driver_->script().Methods(), ElementsAre("CreateVolume"));
  EXPECT_TRUE(client_->CreateVolume(request, 5s).ok());
}

TEST_F(CsiClientTest, AFaultBeforeACallKeepsItFromTheDriver) {
  const base::FakeFaults faults("rpc.csi.Probe.before=error:RESOURCE_EXHAUSTED");
  EXPECT_EQ(client_->Probe({}, 5s).status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(driver_->script().Methods(), ElementsAre());
}

TEST_F(CsiClientTest, ACancelledCallHasAnUnknownOutcome) {
  driver_->script().Fail("NodePublishVolume", base::Status(StatusCode::kCancelled, "stopped"));
  const auto result = client_->NodePublishVolume({}, 5s);
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(IsFinal(result.status()));
}

TEST_F(CsiClientTest, WhoMayNotCallAnyMoreEndsItsCalls) {
  driver_->script().Hang("Probe");
  auto call = std::async(std::launch::async, [&] { return client_->Probe({}, 30s).status(); });
  ASSERT_TRUE(driver_->script().WaitFor("Probe"));
  client_->CancelAll();
  EXPECT_EQ(call.get().code(), StatusCode::kCancelled);
  driver_->script().Release("Probe");
  const base::Status later = client_->Probe({}, 5s).status();
  EXPECT_EQ(later.code(), StatusCode::kCancelled);
  EXPECT_FALSE(IsFinal(later));
}

TEST_F(CsiClientTest, CallsRunInParallel) {
  driver_->script().Hang("Probe");
  auto slow = std::async(std::launch::async, [&] { return client_->Probe({}, 30s).status(); });
  ASSERT_TRUE(driver_->script().WaitFor("Probe"));
  EXPECT_TRUE(client_->GetPluginInfo({}, 5s).ok());
  driver_->script().Release("Probe");
  EXPECT_TRUE(slow.get().ok());
}

TEST_F(CsiClientTest, AnAnswerBeyondAllBoundsIsNone) {
  driver_->state().options().node_id = std::string(300, 'n');
  EXPECT_TRUE(client_->NodeGetInfo({}, 5s).ok());
  driver_->state().options().node_id = std::string(3000, 'n');
  const auto result = client_->NodeGetInfo({}, 5s);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(IsFinal(result.status()));
  EXPECT_THAT(std::string(base::Message(result.status())), HasSubstr("'node_id' is longer"));
}

TEST_F(CsiClientTest, AnAnswerThatCannotBeReadHasAnUnknownOutcome) {
  driver_->state().options().node_id = "\xff";
  const auto result = client_->NodeGetInfo({}, 5s);
  EXPECT_FALSE(IsFinal(result.status())) << result.status();
  EXPECT_THAT(std::string(base::Message(result.status())), HasSubstr("cannot be read"));
}

TEST_F(CsiClientTest, ASocketPathThatIsTooLongIsRefused) {
  const auto client = CsiClient::New("/" + std::string(107, 'x'));
  EXPECT_EQ(client.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(client.status())), HasSubstr("at most 107"));
}

}  // namespace
}  // namespace berth::rpc
