#include "node/pods/log_rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_cri.h"

namespace berth::node {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::SizeIs;
namespace cri = rpc::cri;

class LogRotationTest : public testing::Test {
 protected:
  void SetUp() override {
    runtime_ = *rpc::FakeCri::Start();
    runtime_->state().AddImage("busybox:1");
    cri_ = *rpc::CriClient::New(runtime_->socket());
    cri::RunPodSandboxRequest run;
    run.mutable_config()->mutable_metadata()->set_name("web");
    run.mutable_config()->mutable_metadata()->set_namespace_("default");
    run.mutable_config()->mutable_metadata()->set_uid("u");
    cri::CreateContainerRequest create;
    create.set_pod_sandbox_id(cri_->RunPodSandbox(run, kTime)->pod_sandbox_id());
    create.mutable_config()->mutable_metadata()->set_name("main");
    create.mutable_config()->mutable_image()->set_image("busybox:1");
    cri::StartContainerRequest start;
    start.set_container_id(cri_->CreateContainer(create, kTime)->container_id());
    ASSERT_TRUE(cri_->StartContainer(start, kTime).ok());
    container_ = {.id = ContainerId(start.container_id()),
                  .name = "main",
                  .phase = ContainerState::Phase::kRunning,
                  .log_path = folder_ / "0.log"};
    rotation_ =
        std::make_unique<LogRotation>(*cri_, clock_, LogRotation::Options{.max_bytes = 10},
                                      [this] { return std::vector<ContainerState>{container_}; });
    // The runtime makes the file anew.
    runtime_->script().AfterEffect("ReopenContainerLog", [this](const auto&) {
      Write("");
      return base::OkStatus();
    });
  }
  void Write(const std::string& text) { std::ofstream(container_.log_path) << text; }
  std::string Content(const std::string& name) { return *platform::ReadFile(folder_ / name); }
  std::vector<std::string> Names() { return *platform::ListFolder(folder_.path()); }

  static constexpr std::chrono::seconds kTime{10};
  const platform::TempFolder folder_;
  base::FakeClock clock_;
  std::unique_ptr<rpc::FakeCri> runtime_;
  std::unique_ptr<rpc::CriClient> cri_;
  ContainerState container_;
  std::unique_ptr<LogRotation> rotation_;
};

TEST_F(LogRotationTest, AContainerThatWritesWithoutEndHasFiveLogs) {
  for (int i = 0; i < 9; ++i) {
    Write(fmt::format("{} is too long", i));
    ASSERT_TRUE(rotation_->RotateLog(container_).ok());
    clock_.Advance(std::chrono::seconds(10));
  }
  ASSERT_THAT(Names(), SizeIs(5));
  EXPECT_THAT(Names(), Contains("0.log"));
  EXPECT_EQ(Content(Names()[1]), "5 is too long");
  EXPECT_EQ(Content(Names()[4]), "8 is too long");
  EXPECT_EQ(Content("0.log"), "");
  RemoveLogs(container_.log_path);
  EXPECT_THAT(Names(), testing::IsEmpty());
}

TEST_F(LogRotationTest, AShortLogAndThatOfAnEndedContainerStay) {
  Write("short");
  ASSERT_TRUE(rotation_->RotateLog(container_).ok());
  Write("this is too long");
  container_.phase = ContainerState::Phase::kExited;
  ASSERT_TRUE(rotation_->RotateLog(container_).ok());
  EXPECT_THAT(Names(), ElementsAre("0.log"));
  EXPECT_EQ(runtime_->script().Count("ReopenContainerLog"), 0);
}

TEST_F(LogRotationTest, ALogThatTheRuntimeDoesNotReopenKeepsItsName) {
  runtime_->script().Fail("ReopenContainerLog", base::Error(base::StatusCode::kInternal, "no"));
  Write("this is too long");
  EXPECT_FALSE(rotation_->RotateLog(container_).ok());
  EXPECT_THAT(Names(), ElementsAre("0.log"));
}

TEST_F(LogRotationTest, ARotationThatWasCutOffIsFinished) {
  Write("this is too long");
  std::filesystem::rename(container_.log_path, folder_ / "0.log.20260101-000000");
  ASSERT_TRUE(rotation_->RotateLog(container_).ok());
  EXPECT_THAT(Names(), ElementsAre("0.log", "0.log.20260101-000000"));
}

}  // namespace
}  // namespace berth::node
