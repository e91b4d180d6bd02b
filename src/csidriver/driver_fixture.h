// A driver on a pool in its own folder. Tests call it through its socket, as a CO would; for
// *_root_test.cc. At the end it checks that nothing stays mounted or attached.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "csidriver/driver.h"
#include "csidriver/validate.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "rpc/csi_client.h"
#include "rpc/registration_client.h"

namespace berth::csidriver {

using base::StatusCode;
using block::kMiB;
using csi::v1::VolumeCapability;

inline constexpr std::chrono::seconds kTimeout{60};

inline VolumeCapability MountCapability(const std::string& fs_type,
                                        AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER) {
  VolumeCapability capability;
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

inline VolumeCapability BlockCapability(AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER) {
  VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

class DriverFixture : public testing::Test {
 protected:
  explicit DriverFixture(std::string pool = "") {
    options_.node_id = "node-1";
    options_.pool_folder = pool.empty() ? folder_ / "pool" : std::move(pool);
    options_.endpoint = folder_ / "csi.sock";
    std::filesystem::create_directory(folder_ / "pods");
  }

  void SetUp() override { Restart(); }

  void TearDown() override {
    driver_.reset();
    const auto table = mounter_->List();
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(folder_ / "pods")) << mount.mount_point;
      EXPECT_FALSE(mount.mount_point.starts_with(folder_ / "staging")) << mount.mount_point;
    }
    for (const auto& loop : OurLoops()) {
      ADD_FAILURE() << loop.path << " is left attached";
      EXPECT_TRUE(platform::DetachLoop(loop).ok());
    }
  }

  // Ends the driver and starts it again, as if its process was restarted.
  void Restart() {
    driver_.reset();
    client_.reset();
    auto driver = Driver::Start(options_);
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    client_ = *rpc::CsiClient::New(options_.endpoint);
  }

  std::vector<platform::LoopDevice> OurLoops() const {
    std::vector<platform::LoopDevice> ours;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.pool_folder + "/volumes", error)) {
      if (entry.path().extension() != ".img") continue;
      const auto loops = platform::FindLoops(*platform::IdentifyFile(entry.path()),
                                             entry.path().filename().string());
      ours.insert(ours.end(), loops->begin(), loops->end());
    }
    return ours;
  }
  platform::LoopDevice LoopOf(const std::string& id) const {
    const auto loops = platform::FindLoops(*platform::IdentifyFile(Image(id)), id + ".img");
    EXPECT_EQ(loops->size(), 1u);
    return loops->empty() ? platform::LoopDevice{} : loops->front();
  }

  std::string Image(const std::string& id) const {
    return options_.pool_folder + "/volumes/" + id + ".img";
  }
  std::string Staging(const std::string& id) const { return folder_ / ("staging/" + id); }
  std::string Target(const std::string& name) const { return folder_ / ("pods/" + name); }

  base::StatusOr<csi::v1::Volume> TryCreate(const csi::v1::CreateVolumeRequest& request) {
    ASSIGN_OR_RETURN(const auto response, client_->CreateVolume(request, kTimeout));
    return response.volume();
  }
  static csi::v1::CreateVolumeRequest CreateRequest(const std::string& name,
                                                    const VolumeCapability& capability,
                                                    int64_t size) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    *request.add_volume_capabilities() = capability;
    request.mutable_capacity_range()->set_required_bytes(size);
    return request;
  }
  std::string Create(const std::string& name, const VolumeCapability& capability, int64_t size) {
    const auto volume = TryCreate(CreateRequest(name, capability, size));
    EXPECT_TRUE(volume.ok()) << volume.status();
    return volume.ok() ? volume->volume_id() : "";
  }
  base::Status Delete(const std::string& id) {
    csi::v1::DeleteVolumeRequest request;
    request.set_volume_id(id);
    return client_->DeleteVolume(request, kTimeout).status();
  }

  base::Status Stage(const std::string& id, const VolumeCapability& capability,
                     const std::string& path = "") {
    csi::v1::NodeStageVolumeRequest request;
    request.set_volume_id(id);
    request.set_staging_target_path(path.empty() ? Staging(id) : path);
    *request.mutable_volume_capability() = capability;
    std::filesystem::create_directories(request.staging_target_path());
    return client_->NodeStageVolume(request, kTimeout).status();
  }
  base::Status Unstage(const std::string& id, const std::string& path = "") {
    csi::v1::NodeUnstageVolumeRequest request;
    request.set_volume_id(id);
    request.set_staging_target_path(path.empty() ? Staging(id) : path);
    return client_->NodeUnstageVolume(request, kTimeout).status();
  }
  base::Status Publish(const std::string& id, const VolumeCapability& capability,
                       const std::string& target, bool read_only = false) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(id);
    request.set_staging_target_path(Staging(id));
    request.set_target_path(target);
    *request.mutable_volume_capability() = capability;
    request.set_readonly(read_only);
    return client_->NodePublishVolume(request, kTimeout).status();
  }
  // Publishes for a pod whose container runtime can mount these file systems itself.
  base::StatusOr<csi::v1::NodePublishVolumeResponse> PublishFor(
      const std::string& id, const VolumeCapability& capability, const std::string& target,
      const std::vector<std::string>& file_systems, bool read_only = false) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(id);
    request.set_staging_target_path(Staging(id));
    request.set_target_path(target);
    *request.mutable_volume_capability() = capability;
    request.set_readonly(read_only);
    request.mutable_runtime_supported_filesystems()->Add(file_systems.begin(), file_systems.end());
    return client_->NodePublishVolume(request, kTimeout);
  }
  base::Status Unpublish(const std::string& id, const std::string& target) {
    csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(id);
    request.set_target_path(target);
    return client_->NodeUnpublishVolume(request, kTimeout).status();
  }
  base::StatusOr<int64_t> Expand(const std::string& id, int64_t size) {
    csi::v1::ControllerExpandVolumeRequest request;
    request.set_volume_id(id);
    request.mutable_capacity_range()->set_required_bytes(size);
    ASSIGN_OR_RETURN(const auto response, client_->ControllerExpandVolume(request, kTimeout));
    return response.capacity_bytes();
  }
  base::StatusOr<int64_t> NodeExpand(const std::string& id, const std::string& path) {
    csi::v1::NodeExpandVolumeRequest request;
    request.set_volume_id(id);
    request.set_volume_path(path);
    ASSIGN_OR_RETURN(const auto response, client_->NodeExpandVolume(request, kTimeout));
    return response.capacity_bytes();
  }
  base::StatusOr<csi::v1::NodeGetVolumeStatsResponse> Stats(const std::string& id,
                                                            const std::string& path) {
    csi::v1::NodeGetVolumeStatsRequest request;
    request.set_volume_id(id);
    request.set_volume_path(path);
    return client_->NodeGetVolumeStats(request, kTimeout);
  }
  // Stages the volume and publishes it at Target(name).
  void Bring(const std::string& id, const VolumeCapability& capability, const std::string& name) {
    const base::Status staged = Stage(id, capability);
    ASSERT_TRUE(staged.ok()) << staged;
    const base::Status published = Publish(id, capability, Target(name));
    ASSERT_TRUE(published.ok()) << published;
  }
  void TakeDown(const std::string& id, const std::string& name) {
    const base::Status unpublished = Unpublish(id, Target(name));
    EXPECT_TRUE(unpublished.ok()) << unpublished;
    const base::Status unstaged = Unstage(id);
    EXPECT_TRUE(unstaged.ok()) << unstaged;
  }
  base::StatusOr<std::string> Snapshot(const std::string& id, const std::string& name) {
    csi::v1::CreateSnapshotRequest request;
    request.set_source_volume_id(id);
    request.set_name(name);
    ASSIGN_OR_RETURN(const auto response, client_->CreateSnapshot(request, kTimeout));
    return response.snapshot().snapshot_id();
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(fsync(fd.get()), 0) << path;
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Tries a write, because a read-only device can still be opened for writing.
  static bool Writable(const std::string& path) {
    const base::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    char first = 0;
    return fd.valid() && pread(fd.get(), &first, 1, 0) == 1 && pwrite(fd.get(), &first, 1, 0) == 1;
  }
  bool IsMounted(const std::string& path) const {
    return platform::FindMount(*mounter_->List(), path) != nullptr;
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  DriverOptions options_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<rpc::CsiClient> client_;
};

// A file system in a file of its own; the pool is on it.
class PoolDisk {
 public:
  PoolDisk(const std::string& type, uint64_t bytes) : image_(folder_.SparseFile("disk", bytes)) {
    auto loop = platform::AttachLoop(image_, {});
    EXPECT_TRUE(loop.ok()) << loop.status();
    loop_ = *loop;
    const auto exec = platform::NewHostExec();
    EXPECT_TRUE(platform::FormatIfBlank(*exec, loop_.path, type, {}).ok());
    EXPECT_TRUE(platform::MakeFolders(path()).ok());
    const base::Status mounted =
        platform::NewMounter()->Mount({.source = loop_.path, .target = path(), .fs_type = type});
    EXPECT_TRUE(mounted.ok()) << mounted;
  }
  ~PoolDisk() {
    EXPECT_TRUE(platform::NewMounter()->Unmount(path()).ok());
    EXPECT_TRUE(platform::DetachLoop(loop_).ok());
  }
  PoolDisk(const PoolDisk&) = delete;
  PoolDisk& operator=(const PoolDisk&) = delete;
  std::string path() const { return folder_ / "mnt"; }

 private:
  platform::TempFolder folder_;
  std::string image_;
  platform::LoopDevice loop_;
};

// A base of a fixture whose pool is on a file system of its own.
class PoolOn {
 public:
  PoolOn(const char* type, uint64_t bytes) : disk_(type, bytes) {}

 protected:
  PoolDisk disk_;
};

}  // namespace berth::csidriver
