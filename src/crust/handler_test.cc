// The handler with a sandbox that mounts nothing: what it keeps apart, and says meanwhile.
#include "crust/handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

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

TEST(HandlerTest, WhoAsksMeanwhileIsToldHowFarALongCallHasCome) {
  const platform::TempFolder folder;
  SlowSandboxes kind;
  auto handler = Handler::Start({.paths = Paths(folder / "data", folder / "run"),
                                 .kubelet_folder = folder / "kubelet",
                                 .offer = {.shares = {"nfs4"}},
                                 .patience = std::chrono::milliseconds(1)},
                                kind);
  ASSERT_OK(handler);
  const std::string target =
      fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder.path(), kUid);
  std::filesystem::create_directories(target);
  std::filesystem::create_directories(folder / "bundle");
  std::ofstream(ipc::crust::PlanPath(folder / "run", kUid)) << ipc::crust::WritePlan({target});
  ASSERT_OK((*handler)->BeginSandbox(kSandbox, kUid, folder / "bundle"));

  wire::RuntimePublishVolumeRequest request;
  request.set_sandbox_id(kSandbox);
  request.set_host_volume_id("server:/export");
  request.set_host_target_path(target);
  request.set_file_system("nfs4");
  auto first = std::async(std::launch::async,
                          [&] { return (*handler)->RuntimePublishVolume(request).status(); });
  kind.begun.get_future().wait();
  const base::Status second = (*handler)->RuntimePublishVolume(request).status();
  EXPECT_EQ(second.code(), StatusCode::kAborted);
  EXPECT_THAT(base::Message(second),
              HasSubstr("fsGroup of 'server:/export': 4321 files and folders so far"));
  kind.let_in.set_value();
  EXPECT_TRUE(first.get().ok());
}

}  // namespace
}  // namespace berth::crust
