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
#include "platform/fake_temp_folder.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::StatusCode;
using testing::HasSubstr;

constexpr const char* kSandbox = "s1";
constexpr const char* kUid = "uid-1";

// A volume is there once it is let in.
class SlowSandbox final : public Sandbox {
 public:
  explicit SlowSandbox(std::shared_future<void> let_in, std::promise<void>& begun)
      : let_in_(std::move(let_in)), begun_(begun) {}
  base::Status Publish(const MountPlan&, const PublishWatch& watch) override {
    watch.progress(4321);
    begun_.set_value();
    let_in_.wait();
    return base::OkStatus();
  }
  base::Status Unpublish(const MountPlan&) override { return base::OkStatus(); }
  base::StatusOr<VolumeStats> Stats(const MountPlan&) override { return VolumeStats(); }
  base::StatusOr<int64_t> Expand(const MountPlan&) override { return 0; }
  base::StatusOr<Graft> ForContainer(const MountPlan&, const std::string&) override {
    return Graft();
  }
  base::Status End() override { return base::OkStatus(); }

 private:
  const std::shared_future<void> let_in_;
  std::promise<void>& begun_;
};

class SlowSandboxes final : public SandboxKind {
 public:
  base::StatusOr<std::unique_ptr<Sandbox>> Open(const std::string&) override {
    return std::make_unique<SlowSandbox>(let_in.get_future().share(), begun);
  }
  std::promise<void> let_in;
  std::promise<void> begun;
};

class HandlerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto handler = Handler::Start({.paths = paths_,
                                   .kubelet_folder = folder_ / "kubelet",
                                   .offer = {.shares = {"nfs4"}},
                                   .look_every = std::chrono::milliseconds(1),
                                   .patience = std::chrono::milliseconds(1)},
                                  kind_);
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    std::filesystem::create_directories(target_);
    std::filesystem::create_directories(folder_ / "bundle");
    std::ofstream(plan_) << ipc::crust::WritePlan({target_});
    ASSERT_OK(handler_->BeginSandbox(kSandbox, kUid, folder_ / "bundle"));
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  const std::string plan_ = ipc::crust::PlanPath(paths_.run(), kUid);
  const std::string target_ =
      fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder_.path(), kUid);
  SlowSandboxes kind_;
  std::unique_ptr<Handler> handler_;
};

TEST_F(HandlerTest, WhoAsksMeanwhileIsToldHowFarALongCallHasCome) {
  wire::RuntimePublishVolumeRequest request;
  request.set_sandbox_id(kSandbox);
  request.set_host_volume_id("server:/export");
  request.set_host_target_path(target_);
  request.set_file_system("nfs4");
  auto first = std::async(std::launch::async,
                          [&] { return handler_->RuntimePublishVolume(request).status(); });
  kind_.begun.get_future().wait();
  const base::Status second = handler_->RuntimePublishVolume(request).status();
  EXPECT_EQ(second.code(), StatusCode::kAborted);
  EXPECT_THAT(base::Message(second),
              HasSubstr("fsGroup of 'server:/export': 4321 files and folders so far"));
  kind_.let_in.set_value();
  EXPECT_TRUE(first.get().ok());
}

// containerd that is killed while it makes one leaves its bundle, and knows it no more.
TEST_F(HandlerTest, AnEmptySandboxIsForgottenWhenTheNodeHasFinishedWithItsPod) {
  const std::string record = paths_.Records() + "/" + kSandbox + ".json";
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
