// A handler in its own folders, with berth-oci and runc, and pods of real containers whose volumes
// are file systems on loop devices; for *_root_test.cc. At the end it checks that nothing stays
// mounted or attached.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/ids.h"
#include "base/ipc/crust_call.h"
#include "base/json.h"
#include "crust/crust_handler.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "rpc/crust_client.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;
using base::Json;
using base::StatusCode;
using testing::HasSubstr;

inline constexpr std::chrono::seconds kCallTime{60};
inline constexpr uint64_t kMiB = 1024 * 1024;

// One mount of a container.
struct TestMount {
  std::string source;
  std::string path;
  bool read_only = false;
};

struct Outcome {
  int exit_code = 0;
  std::string out;  // standard output and standard error
  std::string log;  // the runtime's
};

class HandlerFixture : public testing::Test {
 protected:
  HandlerFixture() {
    options_.socket = folder_ / "crust.sock";
    options_.oci_socket = folder_ / "oci.sock";
    options_.data_folder = folder_ / "data";
    options_.run_folder = folder_ / "run";
    options_.kubelet_folder = folder_ / "kubelet";
    options_.check_interval = std::chrono::milliseconds(200);
    options_.free_within = std::chrono::seconds(5);
  }

  void SetUp() override {
    std::filesystem::create_directories(folder_ / "rootfs/bin");
    std::filesystem::create_directories(folder_ / "bundles");
    for (const char* name : {"proc", "dev", "sys", "tmp", "data", "more"}) {
      std::filesystem::create_directories(folder_ / (std::string("rootfs/") + name));
    }
    std::filesystem::copy("/bin/busybox", folder_ / "rootfs/bin/busybox");
    for (const char* name : {"sh", "cat", "echo", "sleep", "ls", "ln", "mkdir", "mknod", "stat",
                             "touch", "rm", "df", "sync", "mv"}) {
      std::filesystem::create_symlink("busybox", folder_ / (std::string("rootfs/bin/") + name));
    }
    const auto oci = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "berth-oci";
    std::filesystem::copy(oci, folder_ / "berth-oci");
    std::ofstream(folder_ / "berth-oci.json")
        << Json{{"runtime", "runc"}, {"socket", options_.oci_socket}, {"run", options_.run_folder}};
    Restart();
  }

  void TearDown() override {
    for (const std::string& id : containers_) Oci({"delete", "--force", id});
    for (const std::string& bound : bound_) umount2(bound.c_str(), MNT_DETACH);
    handler_.reset();
    const auto table = mounter_->List();
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(folder_ / "data/holders/")) << mount.mount_point;
      EXPECT_FALSE(mount.mount_point.starts_with(folder_ / "kubelet")) << mount.mount_point;
    }
    for (const auto& loop : loops_) {
      const auto detached = platform::DetachLoop(loop);
      EXPECT_TRUE(detached.ok()) << detached;
    }
  }

  // Ends the handler and starts it again, as if its process was restarted.
  void Restart() {
    handler_.reset();
    auto handler = CrustHandler::Start(options_);
    ASSERT_TRUE(handler.ok()) << handler.status();
    handler_ = *std::move(handler);
    client_ = *rpc::CrustClient::New(options_.socket);
  }

  // Makes a formatted loop device.
  platform::LoopDevice MakeDevice(const std::string& type, uint64_t bytes = 320 * kMiB) {
    const std::string image = folder_.SparseFile(fmt::format("image{}", loops_.size()), bytes);
    const auto loop = platform::AttachLoop(image, {});
    EXPECT_TRUE(loop.ok()) << loop.status();
    loops_.push_back(*loop);
    const auto made = platform::FindFileSystem(type)->Format(*exec_, loop->path, {});
    EXPECT_TRUE(made.ok()) << made;
    return *loop;
  }

  std::string Target(const std::string& volume) const {
    return fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/{}/mount", folder_.path(),
                       uid_, volume);
  }

  // Writes the pod's plan, as the node agent does before RunPodSandbox.
  void Plan(const std::vector<std::string>& volumes) {
    base::ipc::Strings targets;
    for (const std::string& volume : volumes) {
      targets.push_back(Target(volume));
      std::filesystem::create_directories(Target(volume));
    }
    std::ofstream(base::ipc::crust::PlanPath(options_.run_folder, uid_))
        << base::ipc::crust::WritePlan(targets);
  }

  wire::RuntimePublishVolumeRequest PublishRequest(const std::string& volume,
                                                   const platform::LoopDevice& device,
                                                   const std::string& type) const {
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(device.path);
    request.set_host_target_path(Target(volume));
    request.set_file_system(type);
    return request;
  }
  base::Status Publish(const wire::RuntimePublishVolumeRequest& request) {
    return client_->RuntimePublishVolume(request, kCallTime).status();
  }
  base::Status Unpublish(const std::string& volume, const platform::LoopDevice& device) {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(device.path);
    request.set_host_target_path(Target(volume));
    return client_->RuntimeUnpublishVolume(request, kCallTime).status();
  }

  wire::RuntimePublishVolumeRequest PodRequest(const std::string& volume,
                                               const platform::LoopDevice& device,
                                               const std::string& type) const {
    wire::RuntimePublishVolumeRequest request = PublishRequest(volume, device, type);
    request.clear_sandbox_id();
    request.set_pod_uid(uid_);
    return request;
  }
  base::Status UnpublishForPod(const std::string& volume, const std::string& host_volume_id) {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_pod_uid(uid_);
    request.set_host_volume_id(host_volume_id);
    request.set_host_target_path(Target(volume));
    return client_->RuntimeUnpublishVolume(request, kCallTime).status();
  }

  std::string SubPathSource(const std::string& volume, const std::string& container) const {
    return fmt::format("{}/kubelet/pods/{}/volume-subpaths/{}/{}/0", folder_.path(), uid_, volume,
                       container);
  }
  // Mounts a subPath as the kubelet does for a container: a folder of the target path, elsewhere.
  // Returns the path, which is the source of the container's mount.
  std::string BindSubPath(const std::string& volume, const std::string& container,
                          const std::string& sub_path) {
    const std::string source = Target(volume) + "/" + sub_path;
    const std::string bound = SubPathSource(volume, container);
    std::filesystem::create_directories(source);
    std::filesystem::create_directories(bound);
    EXPECT_EQ(mount(source.c_str(), bound.c_str(), nullptr, MS_BIND, nullptr), 0);
    bound_.push_back(bound);
    return bound;
  }
  // As the kubelet does when the container has ended.
  void UnbindSubPath(const std::string& bound) {
    EXPECT_EQ(umount2(bound.c_str(), UMOUNT_NOFOLLOW), 0);
    std::erase(bound_, bound);
  }

  // Runs berth-oci as containerd's shim does.
  Outcome Oci(const std::vector<std::string>& arguments) {
    const std::string log = fmt::format("{}/log{}.json", folder_.path(), ++runs_);
    std::vector<std::string> argv = {
        folder_ / "berth-oci", "--root", folder_ / "runc", "--log", log, "--log-format", "json"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const auto result = exec_->Run({.argv = argv, .leaves_daemon = arguments[0] == "create"});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {.exit_code = -1};
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    return {result->exit_code, result->out + result->err, text.str()};
  }

  // From now on, calls are for another pod in its own sandbox. Gives the ids of the pod and the
  // sandbox before.
  std::pair<std::string, std::string> BeAnotherPod() {
    std::pair before(uid_, sandbox_);
    uid_ = base::NewUuid();
    sandbox_ = "s" + uid_.substr(0, 8);
    return before;
  }

  std::string Bundle(const std::string& id) const { return folder_ / ("bundles/" + id); }

  // Writes a bundle as containerd does, which also makes the source of a mount if it is missing.
  void MakeBundle(const std::string& id, bool sandbox, const std::vector<TestMount>& mounts) {
    std::filesystem::remove_all(Bundle(id));
    std::filesystem::create_directories(Bundle(id));
    const auto spec = exec_->Run({.argv = {"runc", "spec", "--bundle", Bundle(id)}});
    ASSERT_TRUE(spec.ok() && spec->exit_code == 0) << spec->err;
    Json config = *base::json::Parse(*platform::ReadFile(Bundle(id) + "/config.json"));
    config["root"] = {{"path", folder_ / "rootfs"}, {"readonly", false}};
    config["process"]["terminal"] = false;
    config["process"]["args"] = {"/bin/sleep", "1000"};
    config["process"].erase("rlimits");
    config["process"]["cwd"] = "/";
    config["linux"]["cgroupsPath"] = "/berth-" + id;
    config["annotations"] = {
        {"io.kubernetes.cri.container-type", sandbox ? "sandbox" : "container"},
        {"io.kubernetes.cri.sandbox-id", sandbox_},
        {"io.kubernetes.cri.sandbox-uid", uid_}};
    for (const TestMount& mount : mounts) {
      std::error_code error;
      std::filesystem::create_directories(mount.source, error);
      config["mounts"].push_back(
          {{"destination", mount.path},
           {"type", "bind"},
           {"source", mount.source},
           {"options", {"rbind", "rprivate", mount.read_only ? "ro" : "rw"}}});
    }
    std::ofstream(Bundle(id) + "/config.json") << config;
  }

  // Creates a container and does not start it: its first process waits in its mount namespace.
  Outcome CreateOnly(const std::string& id, bool sandbox, const std::vector<TestMount>& mounts) {
    MakeBundle(id, sandbox, mounts);
    Outcome created =
        Oci({"create", "--bundle", Bundle(id), "--pid-file", Bundle(id) + "/pid", id});
    if (created.exit_code == 0) containers_.push_back(id);
    return created;
  }
  Outcome Create(const std::string& id, bool sandbox, const std::vector<TestMount>& mounts) {
    Outcome created = CreateOnly(id, sandbox, mounts);
    return created.exit_code == 0 ? Oci({"start", id}) : created;
  }
  void BeginSandbox() {
    const Outcome begun = Create(sandbox_, true, {});
    ASSERT_EQ(begun.exit_code, 0) << begun.out;
  }
  void StartContainer(const std::string& id, const std::vector<TestMount>& mounts) {
    const Outcome started = Create(id, false, mounts);
    ASSERT_EQ(started.exit_code, 0) << started.out;
  }
  Outcome Shell(const std::string& id, const std::string& script) {
    return Oci({"exec", id, "/bin/sh", "-c", script});
  }
  // Deletes a container as containerd does: first in the runtime, then its bundle.
  void Delete(const std::string& id) {
    const Outcome deleted = Oci({"delete", "--force", id});
    EXPECT_EQ(deleted.exit_code, 0) << deleted.out;
    std::filesystem::remove_all(Bundle(id));
    std::erase(containers_, id);
  }

  static bool IsFree(const platform::LoopDevice& device) {
    const base::UniqueFd fd(open(device.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    return fd.valid();
  }
  size_t CountIn(const std::string& folder) const {
    std::error_code error;
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / folder, error)) {
      count += entry.path().filename() != "" ? 1 : 0;
    }
    EXPECT_FALSE(error) << folder << ": " << error.message();
    return count;
  }

  platform::TempFolder folder_;
  CrustHandlerOptions options_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::unique_ptr<CrustHandler> handler_;
  std::unique_ptr<rpc::CrustClient> client_;
  std::string uid_ = base::NewUuid();
  // Unique for this run, because runc names cgroups after containers.
  std::string sandbox_ = "s" + uid_.substr(0, 8);
  std::vector<platform::LoopDevice> loops_;
  std::vector<std::string> containers_;
  std::vector<std::string> bound_;  // mounts of subPaths
  int runs_ = 0;
};

}  // namespace berth::crust
