// A driver's process is killed at each of its fault points in turn, with volumes staged, published,
// copied and grown; the one that comes after it takes up the same calls and ends with the data
// whole and nothing left mounted or attached.
#include <sys/wait.h>

#include <cstdlib>

#include "base/fault.h"
#include "csidriver/controller.h"
#include "csidriver/driver_fixture.h"
#include "csidriver/group_controller.h"
#include "csidriver/node.h"

namespace berth::csidriver {
namespace {

constexpr int kWorkFailed = 3;

// The driver without its sockets, so that a test can fork it.
class Daemon {
 public:
  base::Status Open(const std::string& folder) {
    folder_ = folder;
    ASSIGN_OR_RETURN(pool_, block::Pool::Open(folder + "/pool", {}, *mounter_, clock_));
    ASSIGN_OR_RETURN(records_, NodeRecords::Open(pool_->paths().Node()));
    node_ = std::make_unique<Node>(*pool_, *records_, *mounter_, *exec_, offer_);
    controller_ = std::make_unique<Controller>(*pool_, offer_);
    groups_ = std::make_unique<GroupController>(*pool_);
    return base::OkStatus();
  }

  // What a CO may ask for, each call such that it can be repeated from the start.
  base::Status Work() {
    ASSIGN_OR_RETURN(const std::string a, Create("a", ""));
    RETURN_IF_ERROR(Unpublish(a, Sandbox(a)));  // where the driver before this one was ended
    RETURN_IF_ERROR(Bring(a));
    const std::string file = Target(a) + "/file";
    if (!std::filesystem::exists(file)) std::ofstream(file) << "data";
    csi::v1::CreateSnapshotRequest snap;
    snap.set_name("snap");
    snap.set_source_volume_id(a);
    ASSIGN_OR_RETURN(const auto snapshot, controller_->CreateSnapshot(snap));
    RETURN_IF_ERROR(TakeAndDeleteGroup(a));
    RETURN_IF_ERROR(TakeDown(a));
    csi::v1::ControllerExpandVolumeRequest expand;
    expand.set_volume_id(a);
    expand.mutable_capacity_range()->set_required_bytes(32 * kMiB);
    RETURN_IF_ERROR(controller_->ControllerExpandVolume(expand));
    RETURN_IF_ERROR(Bring(a));
    RETURN_IF_ERROR(CheckData(a));
    RETURN_IF_ERROR(DeferBetween(a));
    RETURN_IF_ERROR(TakeDown(a));
    ASSIGN_OR_RETURN(const std::string copy, Create("copy", snapshot.snapshot().snapshot_id()));
    RETURN_IF_ERROR(Bring(copy));
    RETURN_IF_ERROR(CheckData(copy));
    RETURN_IF_ERROR(TakeDown(copy));
    csi::v1::DeleteVolumeRequest remove;
    remove.set_volume_id(copy);
    return controller_->DeleteVolume(remove).status();
  }

 private:
  // Takes a group of two volumes, of which `id` is in use, and deletes it and the other volume.
  base::Status TakeAndDeleteGroup(const std::string& id) {
    ASSIGN_OR_RETURN(const std::string other, Create("other", ""));
    csi::v1::CreateVolumeGroupSnapshotRequest take;
    take.set_name("group");
    take.add_source_volume_ids(id);
    take.add_source_volume_ids(other);
    ASSIGN_OR_RETURN(const auto taken, groups_->CreateVolumeGroupSnapshot(take));
    csi::v1::DeleteVolumeGroupSnapshotRequest remove;
    remove.set_group_snapshot_id(taken.group_snapshot().group_snapshot_id());
    for (const auto& snapshot : taken.group_snapshot().snapshots()) {
      remove.add_snapshot_ids(snapshot.snapshot_id());
    }
    RETURN_IF_ERROR(groups_->DeleteVolumeGroupSnapshot(remove));
    csi::v1::DeleteVolumeRequest gone;
    gone.set_volume_id(other);
    return controller_->DeleteVolume(gone).status();
  }

  std::string Target(const std::string& id) const { return folder_ + "/pods/" + id; }
  std::string Sandbox(const std::string& id) const { return Target(id) + "-sandbox"; }

  base::StatusOr<std::string> Create(const std::string& name, const std::string& snapshot) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    *request.add_volume_capabilities() = capability_;
    request.mutable_capacity_range()->set_required_bytes(16 * kMiB);
    if (!snapshot.empty()) {
      request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(snapshot);
    }
    ASSIGN_OR_RETURN(const auto response, controller_->CreateVolume(request));
    return response.volume().volume_id();
  }

  // Moves the volume from the host to a sandbox and back, without unstaging it.
  base::Status DeferBetween(const std::string& id) {
    RETURN_IF_ERROR(Unpublish(id, Target(id)));
    csi::v1::NodePublishVolumeRequest publish = PublishRequest(id, Sandbox(id));
    publish.add_runtime_supported_filesystems("ext4");
    ASSIGN_OR_RETURN(const auto answer, node_->NodePublishVolume(publish));
    if (!answer.has_runtime_mount_info()) {
      return base::Error(StatusCode::kInternal, "it was not deferred");
    }
    RETURN_IF_ERROR(Unpublish(id, Sandbox(id)));
    RETURN_IF_ERROR(Bring(id));
    return CheckData(id);
  }

  base::Status Unpublish(const std::string& id, const std::string& target) {
    csi::v1::NodeUnpublishVolumeRequest unpublish;
    unpublish.set_volume_id(id);
    unpublish.set_target_path(target);
    return node_->NodeUnpublishVolume(unpublish).status();
  }

  csi::v1::NodePublishVolumeRequest PublishRequest(const std::string& id,
                                                   const std::string& target) const {
    csi::v1::NodePublishVolumeRequest publish;
    publish.set_volume_id(id);
    publish.set_staging_target_path(folder_ + "/staging/" + id);
    publish.set_target_path(target);
    *publish.mutable_volume_capability() = capability_;
    return publish;
  }

  base::Status Bring(const std::string& id) {
    csi::v1::NodeStageVolumeRequest stage;
    stage.set_volume_id(id);
    stage.set_staging_target_path(folder_ + "/staging/" + id);
    *stage.mutable_volume_capability() = capability_;
    std::filesystem::create_directories(stage.staging_target_path());
    std::filesystem::create_directories(folder_ + "/pods");
    RETURN_IF_ERROR(node_->NodeStageVolume(stage));
    return node_->NodePublishVolume(PublishRequest(id, Target(id))).status();
  }

  base::Status TakeDown(const std::string& id) {
    RETURN_IF_ERROR(Unpublish(id, Target(id)));
    csi::v1::NodeUnstageVolumeRequest unstage;
    unstage.set_volume_id(id);
    unstage.set_staging_target_path(folder_ + "/staging/" + id);
    return node_->NodeUnstageVolume(unstage).status();
  }

  base::Status CheckData(const std::string& id) const {
    std::ifstream in(Target(id) + "/file");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text == "data") return base::OkStatus();
    return base::Error(StatusCode::kDataLoss, "the file holds '{}'", text);
  }

  const VolumeCapability capability_ =
      MountCapability("ext4", AccessMode::SINGLE_NODE_SINGLE_WRITER);
  const Offer offer_{.topology_key = "topology/node", .node_id = "n", .fs_types = {"ext4"}};
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  base::SystemClock clock_;
  std::string folder_;
  std::unique_ptr<block::Pool> pool_;
  std::unique_ptr<NodeRecords> records_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<GroupController> groups_;
};

// A folder in memory: a killed process loses nothing that was written, synced or not, so that a
// disk would only make the walk slow.
class MemoryFolder {
 public:
  MemoryFolder() {
    const base::Status mounted = platform::NewMounter()->Mount(
        {.source = "tmpfs", .target = folder_.path(), .fs_type = "tmpfs"});
    EXPECT_TRUE(mounted.ok()) << mounted;
  }
  ~MemoryFolder() { EXPECT_TRUE(platform::NewMounter()->Unmount(folder_.path()).ok()); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const std::string& path() const { return folder_.path(); }

 private:
  const platform::TempFolder folder_;
};

int RunInProcess(const std::string& folder, const std::string& faults, const std::string& log) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("BERTH_FAULTS", faults.c_str(), 1);
    if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
    Daemon daemon;
    const bool well =
        base::InitFaultPoints().ok() && daemon.Open(folder).ok() && daemon.Work().ok();
    _exit(well ? 0 : kWorkFailed);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

constexpr size_t kShards = 4;

// The fault points that the work passes, those of one of kShards tests: the walk is long on a busy
// machine.
std::vector<std::string> FaultPoints(size_t shard) {
  const MemoryFolder folder;
  EXPECT_EQ(RunInProcess(folder.path(), "", folder.path() + "/log"), 0);
  std::ifstream log(folder.path() + "/log");
  std::vector<std::string> names;
  size_t count = 0;
  for (std::string line; std::getline(log, line); ++count) {
    if (count % kShards == shard) names.push_back(line);
  }
  EXPECT_GT(count, 30u);
  return names;
}

void ExpectNothingLeft(const std::string& folder) {
  const auto table = platform::NewMounter()->List();
  for (const auto& mount : *table) EXPECT_FALSE(mount.mount_point.starts_with(folder + "/"));
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/pool/volumes")) {
    if (entry.path().extension() != ".img") continue;
    const auto loops = platform::FindLoops(*platform::IdentifyFile(entry.path()),
                                           entry.path().filename().string());
    EXPECT_TRUE(loops->empty());
    for (const auto& loop : *loops) EXPECT_TRUE(platform::DetachLoop(loop).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/pods"));
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/pool/node"));
}

class DriverCrashTest : public testing::TestWithParam<size_t> {};

TEST_P(DriverCrashTest, TheNextDriverEndsWhatAKilledOneBegan) {
  for (const std::string& point : FaultPoints(GetParam())) {
    SCOPED_TRACE(point);
    const MemoryFolder folder;
    const int status = RunInProcess(folder.path(), point + "=crash", "");
    ASSERT_TRUE(WIFSIGNALED(status));
    Daemon next;
    const base::Status opened = next.Open(folder.path());
    ASSERT_TRUE(opened.ok()) << opened;
    const base::Status again = next.Work();
    EXPECT_TRUE(again.ok()) << again;
    ExpectNothingLeft(folder.path());
  }
}

TEST_P(DriverCrashTest, ACallThatFailedAnywhereCanBeRepeated) {
  for (const std::string& point : FaultPoints(GetParam())) {
    SCOPED_TRACE(point);
    const MemoryFolder folder;
    const int status = RunInProcess(folder.path(), point + "=error", "");
    ASSERT_TRUE(WIFEXITED(status));
    Daemon next;
    const base::Status opened = next.Open(folder.path());
    ASSERT_TRUE(opened.ok()) << opened;
    const base::Status again = next.Work();
    EXPECT_TRUE(again.ok()) << again;
    ExpectNothingLeft(folder.path());
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, DriverCrashTest, testing::Range(size_t{0}, kShards));

}  // namespace
}  // namespace berth::csidriver
