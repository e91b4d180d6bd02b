// The handler with a sandbox that mounts nothing: what it keeps apart, and says meanwhile.
#include "crust/handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "base/assert_ok.h"
#include "base/ipc/crust_call.h"
#include "crust/fake_sandbox.h"
#include "crust/serving/crust_service.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/crust_client.h"
#include "rpc/unix_server.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::StatusCode;
using testing::HasSubstr;

constexpr const char* kSandbox = "s1";
constexpr const char* kUid = "uid-1";

class HandlerTest : public testing::Test {
 protected:
  // A volume is there once it is let in, and never if nobody wants it any more.
  void SetUp() override {
    kind_.answers.publish = [this](const PublishContext& context) {
      context.progress(4321);
      begun_.set_value();
      while (let_in_seen_.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
        if (context.cancelled()) return base::Error(StatusCode::kCancelled, "the walk was ended");
      }
      return base::OkStatus();
    };
    Restart();
    std::filesystem::create_directories(target_);
    std::filesystem::create_directories(folder_ / "bundle");
    std::ofstream(plan_) << ipc::crust::WritePlan({target_});
    ASSERT_OK(
        handler_->BeginSandbox(rpc::SandboxId(kSandbox), api::PodUid(kUid), folder_ / "bundle"));
  }

  void Restart() {
    handler_.reset();
    auto handler = Handler::Start({.paths = paths_,
                                   .kubelet_folder = folder_ / "kubelet",
                                   .offer = offer_,
                                   .check_interval = std::chrono::milliseconds(1),
                                   .patience = patience_,
                                   .container_patience = std::chrono::seconds(60)},
                                  kind_, *mounter_);
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
  }

  wire::RuntimePublishVolumeRequest PublishRequest() const {
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id(kSandbox);
    request.set_host_volume_id("server:/export");
    request.set_host_target_path(target_);
    request.set_file_system("nfs4");
    return request;
  }
  // Under way when it returns.
  std::future<base::Status> BeginPublish() {
    auto publish = std::async(std::launch::async, [this] {
      return handler_->RuntimePublishVolume(PublishRequest()).status();
    });
    begun_.get_future().wait();
    return publish;
  }
  base::Status Unpublish() {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(kSandbox);
    request.set_host_volume_id("server:/export");
    request.set_host_target_path(target_);
    return handler_->RuntimeUnpublishVolume(request).status();
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  const std::string plan_ = ipc::crust::PlanPath(paths_.run(), kUid);
  const std::string target_ =
      fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder_.path(), kUid);
  Offer offer_{.shares = {"nfs4"}};
  std::chrono::milliseconds patience_{1};
  std::promise<void> begun_;
  std::promise<void> let_in_;
  const std::future<void> let_in_seen_ = let_in_.get_future();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  FakeSandboxes kind_;
  std::unique_ptr<Handler> handler_;
};

TEST_F(HandlerTest, WhoAsksMeanwhileIsToldHowFarALongCallHasCome) {
  auto first = BeginPublish();
  const base::Status second = handler_->RuntimePublishVolume(PublishRequest()).status();
  EXPECT_EQ(second.code(), StatusCode::kAborted);
  EXPECT_THAT(base::Message(second),
              HasSubstr("fsGroup of 'server:/export': 4321 files and folders so far"));
  let_in_.set_value();
  EXPECT_TRUE(first.get().ok());
}

TEST_F(HandlerTest, AVolumeThatIsUnpublishedMeanwhileIsNotWaitedFor) {
  patience_ = std::chrono::seconds(60);
  Restart();
  auto publish = BeginPublish();
  ASSERT_OK(Unpublish());
  EXPECT_EQ(publish.get().code(), StatusCode::kCancelled);
}

TEST_F(HandlerTest, ASandboxThatEndsMeanwhileIsNotWaitedFor) {
  patience_ = std::chrono::seconds(60);
  Restart();
  auto publish = BeginPublish();
  ASSERT_OK(handler_->EndSandbox(kSandbox));
  EXPECT_EQ(publish.get().code(), StatusCode::kCancelled);
}

TEST_F(HandlerTest, AHandlerThatEndsDoesNotFinishItsWalks) {
  auto publish = BeginPublish();
  handler_->CancelWalks();
  EXPECT_EQ(publish.get().code(), StatusCode::kCancelled);
}

// It lasts as long as it takes to change the group of all files of a tenant's volume.
TEST_F(HandlerTest, APublishThatLastsKeepsNoOtherKindOfCallWaiting) {
  base::WorkerPool workers({.name = "calls", .max_threads = 1});
  base::WorkerPool publishes({.name = "publishes", .max_threads = 1});
  const auto service = NewCrustService(*handler_, workers, publishes);
  const auto server = rpc::UnixServer::Start(folder_ / "crust.sock", {service.get()});
  ASSERT_OK(server);
  const auto client = rpc::CrustClient::New(folder_ / "crust.sock");
  ASSERT_OK(client);
  auto publish = std::async(std::launch::async, [&] {
    return (*client)->RuntimePublishVolume(PublishRequest(), std::chrono::seconds(60)).status();
  });
  begun_.get_future().wait();
  EXPECT_TRUE((*client)->RuntimeGetCapabilities({}, std::chrono::seconds(10)).ok());
  let_in_.set_value();
  EXPECT_TRUE(publish.get().ok());
}

// A pod whose restartPolicy is Never fails with the first container that cannot be created.
TEST_F(HandlerTest, AContainerWaitsLongerThanOtherCalls) {
  auto publish = BeginPublish();
  EXPECT_EQ(handler_->RuntimePublishVolume(PublishRequest()).status().code(), StatusCode::kAborted);
  auto create = std::async(std::launch::async, [&] {
    return handler_
        ->CreateContainer({.sandbox_id = kSandbox, .pod_uid = api::PodUid(kUid), .config = "{}"})
        .status();
  });
  EXPECT_EQ(create.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  let_in_.set_value();
  ASSERT_OK(publish.get());
  EXPECT_NE(create.get().code(), StatusCode::kAborted);
}

TEST_F(HandlerTest, ASandboxWhoseRecordCannotBeReadIsNotHeldForGone) {
  let_in_.set_value();
  ASSERT_OK(handler_->RuntimePublishVolume(PublishRequest()));
  std::ofstream(paths_.RecordFolder() + "/" + kSandbox + ".json") << "{}";
  Restart();
  const base::Status unpublished = Unpublish();
  EXPECT_EQ(unpublished.code(), StatusCode::kInternal) << unpublished;
  EXPECT_THAT(base::Message(unpublished), HasSubstr("the record of sandbox 's1'"));
  EXPECT_EQ(handler_->EndSandbox(kSandbox).code(), StatusCode::kInternal);
  EXPECT_TRUE(std::filesystem::exists(ipc::crust::MarkPath(paths_.run(), kSandbox)));
}

// The label that the runtime chose for a sandbox stands in the sandbox's config.json.
TEST_F(HandlerTest, FilesGetTheLabelOfTheSandboxIfTheRequestNamesNone) {
  kind_.answers.publish = [](const PublishContext&) { return base::OkStatus(); };
  offer_.capabilities = {wire::RuntimeCapability::RPC::SELINUX_RELABEL};
  offer_.selinux = true;
  Restart();
  auto request = PublishRequest();
  request.set_selinux_relabel(true);
  EXPECT_EQ(handler_->RuntimePublishVolume(request).status().code(), StatusCode::kNotFound)
      << "there is no config.json";
  for (const std::string label : {"u:r:t:s0:c1,c2", ""}) {
    SCOPED_TRACE(label);
    base::Json config = {{"ociVersion", "1.0.2"}, {"linux", base::Json::object()}};
    if (!label.empty()) config["linux"]["mountLabel"] = label;
    std::ofstream(folder_ / "bundle/config.json") << config;
    ASSERT_OK(handler_->RuntimePublishVolume(request));
    ASSERT_OK(handler_->RuntimePublishVolume(request));
    const auto record = SandboxRecordKind::Decode(
        *platform::ReadFile(paths_.RecordFolder() + "/" + kSandbox + ".json"));
    ASSERT_OK(record);
    ASSERT_EQ(record->volumes.size(), 1u);
    const auto* relabel = record->volumes[0].plan.Find<RelabelFiles>();
    EXPECT_EQ(relabel == nullptr ? "" : relabel->label, label);
    ASSERT_OK(Unpublish());
  }
}

// containerd that is killed while it makes one leaves its bundle, and knows it no more.
TEST_F(HandlerTest, AnEmptySandboxIsForgottenWhenTheNodeHasFinishedWithItsPod) {
  const std::string record = paths_.RecordFolder() + "/" + kSandbox + ".json";
  ASSERT_TRUE(std::filesystem::exists(record));
  std::filesystem::remove(plan_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::filesystem::exists(record) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(std::filesystem::exists(record));
}

}  // namespace
}  // namespace berth::crust
