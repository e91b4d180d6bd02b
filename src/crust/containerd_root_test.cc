// Pods of a real containerd, whose unmodified shim calls berth-oci in runc's place.
#include <sys/mount.h>

#include "crust/handler_fixture.h"
#include "rpc/cri_client.h"

namespace berth::crust {
namespace {

namespace cri = rpc::cri;

constexpr const char* kImage = "berth.local/busybox:1";

class ContainerdTest : public HandlerFixture {
 protected:
  void SetUp() override {
    HandlerFixture::SetUp();
    tool_ = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
            "../../../tools/own_containerd";
    StartContainerd();
    sandbox_config_.mutable_metadata()->set_name("pod");
    sandbox_config_.mutable_metadata()->set_namespace_("default");
    sandbox_config_.mutable_metadata()->set_uid(uid_);
    sandbox_config_.set_log_directory(folder_ / "logs");
    sandbox_config_.mutable_linux()
        ->mutable_security_context()
        ->mutable_namespace_options()
        ->set_network(cri::NODE);
  }

  void TearDown() override {
    if (!pod_.empty()) StopPod();
    const auto stopped = exec_->Run({.argv = {tool_, "stop", folder_ / "c"}});
    EXPECT_TRUE(stopped.ok() && stopped->exit_code == 0) << stopped->err;
    HandlerFixture::TearDown();
  }

  void StartContainerd() {
    const auto started =
        exec_->Run({.argv = {tool_, "start", folder_ / "c", "crust=" + folder_ / "berth-oci"},
                    .timeout = std::chrono::seconds(100),
                    .leaves_daemon = true});
    ASSERT_TRUE(started.ok() && started->exit_code == 0) << started->err;
    runtime_ = *rpc::CriClient::New(folder_ / "c/containerd.sock");
  }

  base::Status RunPod() {
    cri::RunPodSandboxRequest request;
    *request.mutable_config() = sandbox_config_;
    request.set_runtime_handler("crust");
    ASSIGN_OR_RETURN(const auto response, runtime_->RunPodSandbox(request, kCallTime));
    pod_ = response.pod_sandbox_id();
    return base::OkStatus();
  }

  static cri::Mount MountOf(const std::string& source, const std::string& path) {
    cri::Mount mount;
    mount.set_host_path(source);
    mount.set_container_path(path);
    return mount;
  }

  base::StatusOr<std::string> StartIn(const std::string& name,
                                      const std::vector<cri::Mount>& mounts) {
    cri::CreateContainerRequest request;
    request.set_pod_sandbox_id(pod_);
    *request.mutable_sandbox_config() = sandbox_config_;
    auto& config = *request.mutable_config();
    config.mutable_metadata()->set_name(name);
    config.mutable_image()->set_image(kImage);
    for (const char* word : {"/bin/sleep", "1000"}) config.add_command(word);
    for (const auto& mount : mounts) *config.add_mounts() = mount;
    ASSIGN_OR_RETURN(const auto created, runtime_->CreateContainer(request, kCallTime));
    cri::StartContainerRequest start;
    start.set_container_id(created.container_id());
    RETURN_IF_ERROR(runtime_->StartContainer(start, kCallTime));
    return created.container_id();
  }

  std::string ShellIn(const std::string& container, const std::string& script) {
    cri::ExecSyncRequest request;
    request.set_container_id(container);
    for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), script}) {
      request.add_cmd(word);
    }
    request.set_timeout(30);
    const auto response = runtime_->ExecSync(request, kCallTime);
    return response.ok() ? response->stdout() + response->stderr()
                         : base::ToString(response.status());
  }

  void StopPod() {
    cri::StopPodSandboxRequest stop;
    stop.set_pod_sandbox_id(pod_);
    const auto stopped = runtime_->StopPodSandbox(stop, kCallTime);
    EXPECT_TRUE(stopped.ok()) << stopped.status();
    cri::RemovePodSandboxRequest remove;
    remove.set_pod_sandbox_id(pod_);
    const auto removed = runtime_->RemovePodSandbox(remove, kCallTime);
    EXPECT_TRUE(removed.ok()) << removed.status();
    pod_.clear();
  }

  wire::RuntimePublishVolumeRequest Request(const platform::LoopDevice& device,
                                            const std::string& type) const {
    auto request = PublishRequest("pv", device, type);
    request.set_sandbox_id(pod_);
    return request;
  }

  std::string tool_;
  std::unique_ptr<rpc::CriClient> runtime_;
  cri::PodSandboxConfig sandbox_config_;
  std::string pod_;
};

TEST_F(ContainerdTest, APodsContainersShareItsVolume) {
  const auto device = MakeDevice("xfs");
  Plan({"pv"});
  auto run = RunPod();
  ASSERT_TRUE(run.ok()) << run;
  auto published = Publish(Request(device, "xfs"));
  ASSERT_TRUE(published.ok()) << published;
  const auto one = StartIn("one", {MountOf(Target("pv"), "/data")});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(ShellIn(*one, "mkdir /data/sub && echo hello > /data/sub/file; ls /data"), "sub\n");
  const auto two = StartIn("two", {MountOf(Target("pv") + "/sub", "/data"),
                                   MountOf(Target("pv") + "/made/here", "/more")});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(ShellIn(*two, "cat /data/file; ls /more"), "hello\n");
  EXPECT_EQ(ShellIn(*one, "ls /data"), "made\nsub\n");
  // containerd has the container's error from the runtime's log.
  ShellIn(*one, "ln -s /etc /data/out");
  const auto escaped = StartIn("three", {MountOf(Target("pv") + "/out", "/data")});
  EXPECT_THAT(std::string(base::Message(escaped.status())), HasSubstr("leads out of its volume"));
  StopPod();
  EXPECT_TRUE(IsFree(device));
  EXPECT_TRUE(std::filesystem::is_empty(Target("pv")));
  EXPECT_EQ(CountIn("run/records/sandboxes"), 0u);
}

// The kubelet has the driver publish a volume, runs a sandbox, mounts the subPaths and makes the
// containers, with no call to the handler in between.
TEST_F(ContainerdTest, AVolumeOfAPodIsThereInEachSandbox) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  ASSERT_TRUE(Publish(PodRequest("pv", device, "ext4")).ok());
  ASSERT_TRUE(RunPod().ok());
  const auto one = StartIn("one", {MountOf(Target("pv"), "/data")});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(ShellIn(*one, "mkdir /data/sub && echo hello > /data/sub/file; ls /data"),
            "lost+found\nsub\n");
  const std::string bound = BindSubPath("pv", "two", "sub");
  const auto two = StartIn("two", {MountOf(bound, "/data")});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(ShellIn(*two, "cat /data/file"), "hello\n");
  StopPod();
  EXPECT_TRUE(IsFree(device));
  UnbindSubPath(bound);

  // The next sandbox fails with the reason while the device cannot be mounted, and begins then.
  base::UniqueFd claimed(open(device.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(claimed.valid());
  EXPECT_THAT(std::string(base::Message(RunPod())),
              HasSubstr(fmt::format("publish '{}' of pod", device.path)));
  claimed.Reset();
  const auto run = RunPod();
  ASSERT_TRUE(run.ok()) << run;
  const auto again = StartIn("one", {MountOf(Target("pv"), "/data")});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ShellIn(*again, "cat /data/sub/file"), "hello\n");
  StopPod();
  EXPECT_TRUE(UnpublishForPod("pv", device.path).ok());
  EXPECT_EQ(CountIn("run/records/pods"), 0u);
}

TEST_F(ContainerdTest, OtherVolumesStillPropagate) {
  const std::string shared = folder_ / "shared";
  std::filesystem::create_directories(shared);
  ASSERT_EQ(mount("t", shared.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(mount(nullptr, shared.c_str(), nullptr, MS_SHARED, nullptr), 0);
  std::filesystem::create_directories(shared + "/late");
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  ASSERT_TRUE(RunPod().ok());
  ASSERT_TRUE(Publish(Request(device, "ext4")).ok());
  cri::Mount host = MountOf(shared, "/host");
  host.set_propagation(cri::PROPAGATION_HOST_TO_CONTAINER);
  const auto one = StartIn("one", {MountOf(Target("pv"), "/data"), host});
  ASSERT_TRUE(one.ok()) << one.status();
  // What is mounted on the host later is seen in the container, and goes with the host's.
  ASSERT_EQ(mount("u", (shared + "/late").c_str(), "tmpfs", 0, nullptr), 0);
  std::ofstream(shared + "/late/file") << "late";
  EXPECT_EQ(ShellIn(*one, "cat /host/late/file; ls /data"), "latelost+found\n");
  EXPECT_EQ(umount2((shared + "/late").c_str(), 0), 0) << strerror(errno);
  EXPECT_EQ(ShellIn(*one, "ls /host/late"), "");
  StopPod();
  EXPECT_TRUE(IsFree(device));
  EXPECT_EQ(umount2(shared.c_str(), 0), 0) << strerror(errno);
}

TEST_F(ContainerdTest, APodWithAPlanDoesNotStartWithoutTheHandler) {
  handler_.reset();
  // No plan: it is a pod like any other.
  ASSERT_TRUE(RunPod().ok());
  StopPod();
  Plan({"pv"});
  const auto refused = RunPod();
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("CRUST handler, which is not there"));
  Restart();
  const auto run = RunPod();
  EXPECT_TRUE(run.ok()) << run;
}

}  // namespace
}  // namespace berth::crust
