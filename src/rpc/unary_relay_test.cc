#include "rpc/unary_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <thread>

#include "base/assert_ok.h"
#include "proto/csi.pb.h"
#include "rpc/csi_client.h"
#include "rpc/fake_csi_driver.h"

namespace berth::rpc {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using namespace std::chrono_literals;

class UnaryRelayTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = FakeCsiDriver::Start();
    ASSERT_OK(driver);
    driver_ = *std::move(driver);
    folder_ = driver_->socket() + "-relay";
    std::filesystem::create_directory(folder_);
    Start({});
  }
  void TearDown() override {
    relay_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Start(std::map<std::string, UnaryRelay::Answer> answers) {
    relay_.reset();
    auto relay = UnaryRelay::Start({.socket = folder_ + "/s",
                                    .target = driver_->socket(),
                                    .answers = std::move(answers),
                                    .threads = 1,
                                    .max_queued = 1,
                                    .max_passed_on = 2});
    ASSERT_OK(relay);
    relay_ = *std::move(relay);
    auto client = CsiClient::New(folder_ + "/s");
    ASSERT_OK(client);
    client_ = *std::move(client);
  }

  std::unique_ptr<FakeCsiDriver> driver_;
  std::string folder_;
  std::unique_ptr<UnaryRelay> relay_;
  std::unique_ptr<CsiClient> client_;
};

TEST_F(UnaryRelayTest, CallsOfEachServiceReachTheDriverAndItsAnswersComeBack) {
  const auto info = client_->GetPluginInfo({}, 10s);
  ASSERT_OK(info);
  EXPECT_EQ(info->name(), driver_->name());
  csi::v1::CreateVolumeRequest create;
  create.set_name("one");
  create.add_volume_capabilities()->mutable_mount();
  ASSERT_OK(client_->CreateVolume(create, 10s));
  EXPECT_EQ(driver_->script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume").name(),
            "one");
  driver_->script().Fail("CreateVolume", base::Error(StatusCode::kOutOfRange, "too large"));
  const auto failed = client_->CreateVolume(create, 10s);
  EXPECT_EQ(failed.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(base::Message(failed.status()), HasSubstr("too large"));
}

TEST_F(UnaryRelayTest, AMethodMayBeAnsweredHere) {
  Start(
      {{"/csi.v1.Node/NodeGetInfo",
        AnswerWith<csi::v1::NodeGetInfoRequest, csi::v1::NodeGetInfoResponse>(
            [](const csi::v1::NodeGetInfoRequest&) -> base::StatusOr<csi::v1::NodeGetInfoResponse> {
              csi::v1::NodeGetInfoResponse response;
              response.set_node_id("here");
              return response;
            })},
       {"/csi.v1.Identity/Probe",
        AnswerWith<csi::v1::ProbeRequest, csi::v1::ProbeResponse>(
            [](const csi::v1::ProbeRequest&) -> base::StatusOr<csi::v1::ProbeResponse> {
              return base::Error(StatusCode::kFailedPrecondition, "not yet");
            })}});
  const auto info = client_->NodeGetInfo({}, 10s);
  ASSERT_OK(info);
  EXPECT_EQ(info->node_id(), "here");
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 0);
  EXPECT_EQ(client_->Probe({}, 10s).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(client_->GetPluginInfo({}, 10s));
}

TEST_F(UnaryRelayTest, ADriverThatIsAwayIsUnavailableUntilItIsBack) {
  driver_->GoAway();
  EXPECT_EQ(client_->GetPluginInfo({}, 10s).status().code(), StatusCode::kUnavailable);
  ASSERT_OK(driver_->ComeBack());
  ASSERT_OK(client_->GetPluginInfo({}, 10s));
}

TEST_F(UnaryRelayTest, TheCallersDeadlineEndsTheCallAtTheDriver) {
  driver_->script().Hang("GetPluginInfo");
  EXPECT_EQ(client_->GetPluginInfo({}, 100ms).status().code(), StatusCode::kDeadlineExceeded);
  driver_->script().ReleaseAll();
  // A call that hangs does not take the relay's thread.
  driver_->script().Hang("Probe");
  std::jthread hung([this] { (void)client_->Probe({}, 60s); });
  ASSERT_TRUE(driver_->script().WaitFor("Probe"));
  ASSERT_OK(client_->GetPluginInfo({}, 10s));
  driver_->script().ReleaseAll();
}

TEST_F(UnaryRelayTest, AMethodWhoseAnswersHangDoesNotHoldUpOthers) {
  std::latch begun(1), release(1);
  Start({{"/csi.v1.Identity/Probe",
          AnswerWith<csi::v1::ProbeRequest, csi::v1::ProbeResponse>(
              [&](const csi::v1::ProbeRequest&) -> base::StatusOr<csi::v1::ProbeResponse> {
                begun.count_down();
                release.wait();
                return csi::v1::ProbeResponse();
              })},
         {"/csi.v1.Node/NodeGetInfo",
          AnswerWith<csi::v1::NodeGetInfoRequest, csi::v1::NodeGetInfoResponse>(
              [](const csi::v1::NodeGetInfoRequest&) { return csi::v1::NodeGetInfoResponse(); })}});
  std::jthread hung([this] { EXPECT_TRUE(client_->Probe({}, 60s).ok()); });
  begun.wait();
  EXPECT_TRUE(client_->NodeGetInfo({}, 5s).ok()) << "another method that is answered here";
  EXPECT_TRUE(client_->GetPluginInfo({}, 5s).ok()) << "a method that is passed on";
  release.count_down();
}

TEST_F(UnaryRelayTest, TheCallsThatWaitForTheDriverAreBounded) {
  Start({{"/csi.v1.Node/NodeGetInfo",
          AnswerWith<csi::v1::NodeGetInfoRequest, csi::v1::NodeGetInfoResponse>(
              [](const csi::v1::NodeGetInfoRequest&) { return csi::v1::NodeGetInfoResponse(); })}});
  driver_->script().Hang("Probe");
  {
    std::jthread one([this] { EXPECT_TRUE(client_->Probe({}, 60s).ok()); });
    std::jthread two([this] { EXPECT_TRUE(client_->Probe({}, 60s).ok()); });
    EXPECT_TRUE(driver_->script().WaitFor("Probe", 2));
    EXPECT_EQ(client_->GetPluginInfo({}, 10s).status().code(), StatusCode::kUnavailable);
    ASSERT_OK(client_->NodeGetInfo({}, 10s));
    driver_->script().ReleaseAll();
  }
  ASSERT_OK(client_->GetPluginInfo({}, 10s));
}

TEST_F(UnaryRelayTest, TheRelayEndsWhileADriverHangs) {
  driver_->script().Hang("Probe");
  std::jthread hung([this] { (void)client_->Probe({}, 60s); });
  ASSERT_TRUE(driver_->script().WaitFor("Probe"));
  relay_.reset();
}

}  // namespace
}  // namespace berth::rpc
