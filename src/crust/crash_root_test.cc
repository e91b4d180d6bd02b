// A handler's process is killed at each of its fault points in turn, in the middle of a sandbox's
// life, whose volume is published for the sandbox or for its pod; the one that comes after it takes
// up the same calls and ends with nothing left mounted, and the device free.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fault.h"
#include "base/ipc/crust_call.h"
#include "crust/handler.h"
#include "crust/namespace_sandbox.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;

constexpr int kWorkFailed = 3;
constexpr const char* kSandbox = "s1";
constexpr const char* kUid = "uid-1";

// Whose volume it is.
enum class Owner { kSandbox, kPod };

// The handler without its sockets, so that a test can fork it.
class Daemon {
 public:
  explicit Daemon(Owner owner) : owner_(owner) {}

  base::Status Open(const std::string& folder, const std::string& device) {
    folder_ = folder;
    device_ = device;
    ASSIGN_OR_RETURN(kind_, NewNamespaceSandboxes(*mounter_, *exec_,
                                                  {.pins = folder + "/data/holders",
                                                   .utilities = folder + "/data/utilities",
                                                   .kubelet = folder + "/kubelet"}));
    using Capability = wire::RuntimeCapability::RPC;
    ASSIGN_OR_RETURN(
        handler_,
        Handler::Start({.paths = Paths(folder + "/data", folder + "/run"),
                        .kubelet_folder = folder + "/kubelet",
                        .offer = {.capabilities = {Capability::FS_GROUP_CHANGE_POLICY_ALWAYS,
                                                   Capability::SUBPATH, Capability::VOLUME_RESIZE,
                                                   Capability::POD_VOLUMES},
                                  .file_systems = {"xfs"}}},
                       *kind_, *mounter_));
    return base::OkStatus();
  }

  // A sandbox's whole life, each call such that it can be repeated from the start.
  base::Status Work() {
    std::filesystem::create_directories(folder_ + "/bundle");
    std::filesystem::create_directories(Target());
    if (owner_ == Owner::kPod) {
      RETURN_IF_ERROR(Publish());
    } else {
      std::ofstream(ipc::crust::PlanPath(folder_ + "/run", kUid))
          << ipc::crust::WritePlan({Target()});
    }
    // A container runtime that was refused a sandbox makes another one.
    base::Status begun =
        handler_->BeginSandbox(rpc::SandboxId(kSandbox), api::PodUid(kUid), folder_ + "/bundle")
            .status();
    if (begun.code() == base::StatusCode::kFailedPrecondition) {
      RETURN_IF_ERROR(handler_->EndSandbox(kSandbox));
      begun =
          handler_->BeginSandbox(rpc::SandboxId(kSandbox), api::PodUid(kUid), folder_ + "/bundle")
              .status();
    }
    RETURN_IF_ERROR(begun);
    if (owner_ == Owner::kSandbox) RETURN_IF_ERROR(Publish());
    const std::string config =
        R"({"mounts":[{"type":"bind","source":")" + MakeSubPath() + R"(","destination":"/d"}]})";
    ASSIGN_OR_RETURN(
        const CreateReply created,
        handler_->CreateContainer(
            {.sandbox_id = kSandbox, .pod_uid = api::PodUid(kUid), .config = config, .most = 16}));
    if (created.count != 1 || created.grafts.size() != 1) {
      return base::Error(base::StatusCode::kInternal, "the container got {} mounts", created.count);
    }
    wire::RuntimeExpandVolumeRequest expand;
    NameOwner(expand);
    expand.set_host_volume_id(device_);
    return handler_->RuntimeExpandVolume(expand).status();
  }

  base::Status End() {
    umount2(SubPath().c_str(), UMOUNT_NOFOLLOW);
    wire::RuntimeUnpublishVolumeRequest unpublish;
    NameOwner(unpublish);
    unpublish.set_host_volume_id(device_);
    unpublish.set_host_target_path(Target());
    RETURN_IF_ERROR(handler_->RuntimeUnpublishVolume(unpublish));
    return handler_->EndSandbox(kSandbox);
  }

 private:
  template <typename Request>
  void NameOwner(Request& request) const {
    if (owner_ == Owner::kPod) {
      request.set_pod_uid(kUid);
    } else {
      request.set_sandbox_id(kSandbox);
    }
  }
  base::Status Publish() {
    wire::RuntimePublishVolumeRequest publish;
    NameOwner(publish);
    publish.set_host_volume_id(device_);
    publish.set_host_target_path(Target());
    publish.set_file_system("xfs");
    publish.set_fsgroup_gid(4242);
    return handler_->RuntimePublishVolume(publish).status();
  }

  // Returns the source of a container's mount of a subPath, which the kubelet makes for a pod's
  // volume, unless it did before.
  std::string MakeSubPath() const {
    const std::string source = Target() + "/sub";
    if (owner_ == Owner::kSandbox) return source;
    std::filesystem::create_directories(source);
    std::filesystem::create_directories(SubPath());
    if (!std::filesystem::equivalent(source, SubPath())) {
      EXPECT_EQ(mount(source.c_str(), SubPath().c_str(), nullptr, MS_BIND, nullptr), 0);
    }
    return SubPath();
  }
  std::string SubPath() const {
    return fmt::format("{}/kubelet/pods/{}/volume-subpaths/pv/c/0", folder_, kUid);
  }
  std::string Target() const {
    return fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder_, kUid);
  }

  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const Owner owner_;
  std::string folder_;
  std::string device_;
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Handler> handler_;
};

// A volume whose unpublishing has begun is not given out again.
bool IsBeingUnpublished(const base::Status& status) {
  return base::Message(status).find("is being unpublished") != std::string_view::npos;
}

class HandlerCrashTest : public testing::TestWithParam<Owner> {
 protected:
  HandlerCrashTest() {
    const auto loop = platform::AttachLoop(folder_.SparseFile("image", 320 << 20), {});
    EXPECT_TRUE(loop.ok()) << loop.status();
    loop_ = *loop;
    const auto exec = platform::NewHostExec();
    EXPECT_TRUE(platform::FindFileSystem("xfs")->Format(*exec, loop_.path, {}).ok());
  }
  ~HandlerCrashTest() override {
    const auto detached = platform::DetachLoop(loop_);
    EXPECT_TRUE(detached.ok()) << detached;
  }

  int RunInProcess(const std::string& faults, const std::string& log) {
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", faults.c_str(), 1);
      if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
      Daemon daemon(GetParam());
      const auto live = [&]() -> base::Status {
        RETURN_IF_ERROR(base::InitFaultPoints());
        RETURN_IF_ERROR(daemon.Open(Folder(), loop_.path));
        RETURN_IF_ERROR(daemon.Work());
        return daemon.End();
      };
      const base::Status lived = live();
      if (!lived.ok()) fmt::print(stderr, "{}\n", base::ToString(lived));
      _exit(lived.ok() ? 0 : kWorkFailed);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  std::string Folder() const { return folder_ / "h"; }

  // The fault points that a life passes.
  std::vector<std::string> FaultPoints() {
    const std::string log = folder_ / "log";
    EXPECT_EQ(RunInProcess("", log), 0);
    ExpectNothingLeft();
    std::ifstream lines(log);
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) names.push_back(line);
    EXPECT_GT(names.size(), 15u);
    return names;
  }

  void ExpectNothingLeft() {
    const auto table = platform::NewMounter()->List();
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(Folder() + "/data/holders/"));
      EXPECT_FALSE(mount.mount_point.starts_with(Folder() + "/kubelet/")) << mount.mount_point;
    }
    // The plan of a sandbox's volume is the node agent's.
    std::vector<std::string> folders = {"/data/holders", "/run/records/sandboxes", "/run/sandboxes",
                                        "/run/records/pods"};
    if (GetParam() == Owner::kPod) folders.emplace_back("/run/plans");
    for (const std::string& folder : folders) {
      EXPECT_TRUE(std::filesystem::is_empty(Folder() + folder)) << folder;
    }
    const base::UniqueFd device(open(loop_.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    EXPECT_TRUE(device.valid()) << "the device is in use";
    device_was_free_ = device.valid();
    umount2((Folder() + "/data/holders").c_str(), MNT_DETACH);
    umount2((Folder() + "/data/utilities").c_str(), MNT_DETACH);
    std::filesystem::remove_all(Folder());
  }

  const platform::TempFolder folder_;
  platform::LoopDevice loop_;
  bool device_was_free_ = true;
};

TEST_P(HandlerCrashTest, TheNextHandlerEndsWhatAKilledOneBegan) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    const int status = RunInProcess(point + "=crash", "");
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    Daemon next(GetParam());
    const base::Status opened = next.Open(Folder(), loop_.path);
    ASSERT_TRUE(opened.ok()) << opened;
    const base::Status again = next.Work();
    EXPECT_TRUE(again.ok() || IsBeingUnpublished(again)) << again;
    const base::Status ended = next.End();
    EXPECT_TRUE(ended.ok()) << ended;
    ExpectNothingLeft();
    ASSERT_TRUE(device_was_free_);
  }
}

TEST_P(HandlerCrashTest, ACallThatFailedAnywhereCanBeRepeated) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    ASSERT_TRUE(WIFEXITED(RunInProcess(point + "=error", "")));
    Daemon next(GetParam());
    ASSERT_TRUE(next.Open(Folder(), loop_.path).ok());
    const base::Status again = next.Work();
    EXPECT_TRUE(again.ok() || IsBeingUnpublished(again)) << again;
    EXPECT_TRUE(next.End().ok());
    ExpectNothingLeft();
    ASSERT_TRUE(device_was_free_);
  }
}

INSTANTIATE_TEST_SUITE_P(Owners, HandlerCrashTest, testing::Values(Owner::kSandbox, Owner::kPod),
                         [](const auto& test) {
                           return test.param == Owner::kPod ? "Pod" : "Sandbox";
                         });

}  // namespace
}  // namespace berth::crust
