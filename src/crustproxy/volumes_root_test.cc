// What the kubelet asks for, and what the driver's and the handler's doubles hear of it, with a
// real loop device. As root, whom alone the handler serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "base/assert_ok.h"
#include "base/fake_faults.h"
#include "crustproxy/volumes.h"
#include "kube/fake_client.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_crust.h"
#include "rpc/fake_csi_driver.h"
#include "volume/fake_host.h"

namespace berth::crustproxy {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using NodeRpc = csi::v1::NodeServiceCapability::RPC;
using Capability = rpc::FakeCrust::Capability;

constexpr char kPod[] = "6f1b0a52-0000-4000-8000-000000000001";
constexpr char kHandle[] = "volumes/one";

class VolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    auto driver = rpc::FakeCsiDriver::Start();
    ASSERT_OK(driver);
    driver_ = *std::move(driver);
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
    disk_.emplace();
    // The driver's device file is the disk.
    driver_->script().AfterEffect("NodePublishVolume", [this](const auto& message) {
      const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
      if (!request.volume_capability().has_block()) return base::OkStatus();
      struct stat disk = {};
      EXPECT_EQ(stat(disk_->device().c_str(), &disk), 0);
      std::filesystem::remove(request.target_path());
      EXPECT_EQ(mknod(request.target_path().c_str(), S_IFBLK | 0600, disk.st_rdev), 0);
      return base::OkStatus();
    });
    client_.Add(Json::parse(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",
        "metadata":{"name":"sandboxed"},"handler":"berth"})"));
    SetHandler("sandboxed");
    client_.Add(Json::parse(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",
        "metadata":{"name":"plain"},"handler":"runc"})"));
    client_.Add(
        Json{{"apiVersion", "storage.k8s.io/v1"},
             {"kind", "StorageClass"},
             {"metadata",
              {{"name", "fast"},
               {"annotations", {{"storage.berth.dev/allow-runtime-assisted-mount", "true"}}}}},
             {"provisioner", driver_->name()}});
    client_.Add(Json{{"apiVersion", "v1"},
                     {"kind", "PersistentVolumeClaim"},
                     {"metadata", {{"name", "data"}, {"namespace", "shop"}, {"uid", "c1"}}},
                     {"spec", {{"volumeName", "pv-1"}, {"accessModes", {"ReadWriteOncePod"}}}}});
    client_.Add(Json{
        {"apiVersion", "v1"},
        {"kind", "PersistentVolume"},
        {"metadata", {{"name", "pv-1"}}},
        {"spec",
         {{"storageClassName", "fast"},
          {"accessModes", {"ReadWriteOncePod"}},
          {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "c1"}}},
          {"csi", {{"driver", driver_->name()}, {"volumeHandle", kHandle}, {"fsType", "ext4"}}}}}});
    AddPod(kPod, "sandboxed", {{"fsGroup", 3000}});
    Restart();
  }

  void SetHandler(const std::string& runtime_class) {
    client_.Add(
        Json{{"apiVersion", "node.k8s.io/v1"},
             {"kind", "RuntimeClass"},
             {"metadata",
              {{"name", runtime_class},
               {"annotations", {{"storage.berth.dev/fs-mgmt-socket", handler_->socket()}}}}},
             {"handler", "berth"}});
  }
  void AddPod(const std::string& uid, const std::string& runtime_class,
              const Json& security = Json::object()) {
    Json spec = {
        {"nodeName", "node-a"},
        {"securityContext", security},
        {"containers", {{{"name", "c"}, {"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}}}},
        {"volumes", {{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}}}};
    if (!runtime_class.empty()) spec["runtimeClassName"] = runtime_class;
    client_.Add(Json{{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", {{"name", "pod-" + uid}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", spec}});
  }

  // As a new process of the proxy.
  void Restart() {
    volumes_.reset();
    auto records = VolumeRecords::Open(folder_ / "records");
    ASSERT_OK(records);
    records_ = *std::move(records);
    auto driver = rpc::CsiClient::New(driver_->socket());
    ASSERT_OK(driver);
    driver_client_ = *std::move(driver);
    volumes_.emplace(Volumes::Parts{.driver = *driver_client_,
                                    .cluster = cluster_,
                                    .records = *records_,
                                    .deferral = deferral_,
                                    .exec = *exec_,
                                    .mounter = *mounter_,
                                    .paths = paths_});
  }

  static csi::v1::VolumeCapability Mount() {
    csi::v1::VolumeCapability capability;
    capability.mutable_access_mode()->set_mode(
        csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    capability.mutable_mount()->set_fs_type("ext4");
    capability.mutable_mount()->add_mount_flags("noatime,nodiratime");
    return capability;
  }
  std::string Staging() const {
    return paths_.CsiGlobalMount(driver_->name(), api::VolumeHandle(kHandle)).text();
  }
  std::string Target(const std::string& pod = kPod) const {
    return paths_.Pod(pod) + "/volumes/kubernetes.io~csi/pv-1/mount";
  }
  // The kubelet's calls, in its order.
  Status Stage() {
    csi::v1::NodeStageVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_staging_target_path(Staging());
    *request.mutable_volume_capability() = Mount();
    EXPECT_TRUE(platform::MakeFolders(Staging()).ok());
    return volumes_->Stage(request).status();
  }
  Status Publish(const std::string& pod = kPod) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_staging_target_path(Staging());
    request.set_target_path(Target(pod));
    *request.mutable_volume_capability() = Mount();
    EXPECT_TRUE(platform::MakeFolders(std::filesystem::path(Target(pod)).parent_path()).ok());
    return volumes_->Publish(request).status();
  }
  Status Unpublish(const std::string& pod = kPod) {
    csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_target_path(Target(pod));
    return volumes_->Unpublish(request).status();
  }
  Status Unstage() {
    csi::v1::NodeUnstageVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_staging_target_path(Staging());
    return volumes_->Unstage(request).status();
  }
  void ExpectNothingIsLeft() {
    EXPECT_THAT(driver_->state().StagingPaths(), IsEmpty());
    EXPECT_THAT(driver_->state().TargetPaths(), IsEmpty());
    EXPECT_THAT(handler_->published(), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    const std::filesystem::path devices = paths_.CsiDevices();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(devices)) {
      EXPECT_TRUE(entry.is_directory()) << entry.path();
    }
  }
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const auto& event : events_.events()) told.push_back(event.reason + ": " + event.message);
    return told;
  }
  rpc::crust::RuntimePublishVolumeRequest AskedOfHandler() const {
    return handler_->script().LastRequest<rpc::crust::RuntimePublishVolumeRequest>(
        "RuntimePublishVolume");
  }
  csi::v1::NodePublishVolumeRequest AskedOfDriver() const {
    return driver_->script().LastRequest<csi::v1::NodePublishVolumeRequest>("NodePublishVolume");
  }

  const platform::TempFolder folder_;
  const volume::Paths paths_{folder_ / "kubelet"};
  kube::FakeClient client_;
  volume::FakeEventSink events_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<rpc::FakeCrust> handler_;
  std::optional<platform::Disk> disk_;
  Cluster cluster_{client_, "node-a"};
  node::CrustDeferral deferral_{
      [this](const api::KindInfo& kind, std::string_view ns, std::string_view name) {
        return cluster_.GetObject(kind, ns, name);
      },
      events_,
      {.before_sandbox = true}};
  std::unique_ptr<VolumeRecords> records_;
  std::unique_ptr<rpc::CsiClient> driver_client_;
  std::optional<Volumes> volumes_;
};

TEST_F(VolumesTest, ADriverThatKnowsNoHandlersGivesADeviceInPlaceOfAFileSystem) {
  ASSERT_OK(Stage());
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 0);
  ASSERT_OK(Publish());
  const auto staged =
      driver_->script().LastRequest<csi::v1::NodeStageVolumeRequest>("NodeStageVolume");
  EXPECT_TRUE(staged.volume_capability().has_block());
  EXPECT_EQ(staged.staging_target_path(), paths_.CsiBlockStaging("pv-1").text());
  EXPECT_TRUE(AskedOfDriver().volume_capability().has_block());

  const auto asked = AskedOfHandler();
  EXPECT_EQ(asked.pod_uid(), kPod);
  EXPECT_EQ(asked.sandbox_id(), "");
  EXPECT_EQ(asked.host_target_path(), Target());
  EXPECT_EQ(asked.host_volume_id(), AskedOfDriver().target_path());
  EXPECT_EQ(asked.file_system(), "ext4");
  EXPECT_THAT(asked.mount_options(), ElementsAre("noatime", "nodiratime"));
  EXPECT_EQ(asked.fsgroup_gid(), 3000);
  EXPECT_EQ(asked.fsgroup_policy(), "Always");
  const auto found = platform::ProbeSignature(disk_->device());
  ASSERT_OK(found);
  EXPECT_EQ((*found)->type, "ext4");
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("RuntimeAssistedMount")));

  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AFileSystemThatTheDeviceHoldsIsKept) {
  ASSERT_OK(platform::PrepareFileSystem(*exec_, disk_->device(), "ext4"));
  ASSERT_OK(disk_->Mount("ext4"));
  ASSERT_OK(platform::WriteDurably<"crustproxy.test">(disk_->mount_point() + "/kept", "data"));
  ASSERT_OK(disk_->Unmount());
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  ASSERT_OK(disk_->Mount("ext4"));
  const auto kept = platform::ReadFile(disk_->mount_point() + "/kept");
  ASSERT_OK(kept);
  EXPECT_EQ(*kept, "data");
  ASSERT_OK(disk_->Unmount());
}

TEST_F(VolumesTest, ARepeatedOrInterruptedCallGoesOnWhereItStopped) {
  ASSERT_OK(Stage());
  handler_->script().LoseAnswer("RuntimePublishVolume");
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  Restart();
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  const int calls = driver_->script().Count("NodePublishVolume");
  Restart();
  ASSERT_OK(Publish());  // as after a restart of the kubelet
  EXPECT_EQ(driver_->script().Count("NodePublishVolume"), calls);
  handler_->script().LoseAnswer("RuntimeUnpublishVolume");
  EXPECT_EQ(Unpublish().code(), StatusCode::kUnavailable);
  Restart();
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AnErrorAfterAStepIsNeverFinalForTheKubelet) {
  ASSERT_OK(Stage());
  handler_->script().Fail("RuntimePublishVolume",
                          base::Error(StatusCode::kFailedPrecondition, "no"));
  const Status failed = Publish();
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(failed), HasSubstr("no"));
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, ADriverThatPublishesNoDevicesMountsOnTheHost) {
  ASSERT_OK(Stage());
  driver_->script().Fail("NodeStageVolume",
                         base::Error(StatusCode::kInvalidArgument, "no block volumes here"));
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("no block volumes here")));
  EXPECT_TRUE(AskedOfDriver().volume_capability().has_mount());
  EXPECT_EQ(AskedOfDriver().target_path(), Target());
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AFileSystemThatTheHandlerDoesNotMountIsMountedOnTheHost) {
  handler_->options().file_systems = {"xfs"};
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(),
              ElementsAre(HasSubstr("its file system is ext4, and the handler mounts xfs")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  const auto found = platform::ProbeSignature(disk_->device());
  ASSERT_OK(found);
  EXPECT_FALSE(found->has_value());  // not formatted
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AHandlerThatAppliesNoFsGroupLeavesTheVolumeToTheHost) {
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("fsGroup")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
}

TEST_F(VolumesTest, AHandlerThatSetsNoLabelsLeavesTheVolumeToTheHost) {
  AddPod(kPod, "sandboxed", {{"seLinuxOptions", {{"level", "s0:c1"}}}});
  handler_->Lose(Capability::SELINUX_RELABEL);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("SELinux label")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
}

TEST_F(VolumesTest, AVolumeOfPodsWithoutAHandlerIsTheDriversAlone) {
  for (const std::string runtime_class : {"", "plain"}) {
    AddPod(kPod, runtime_class);
    ASSERT_OK(Stage());
    EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
    ASSERT_OK(Publish());
    EXPECT_TRUE(AskedOfDriver().volume_capability().has_mount());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    ASSERT_OK(Unpublish());
    ASSERT_OK(Unstage());
    EXPECT_THAT(driver_->state().StagingPaths(), IsEmpty());
  }
}

TEST_F(VolumesTest, TheHostDoesNotMountWhatASandboxHas) {
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  AddPod("second", "");
  const Status refused = Publish("second");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr(kPod));
  ASSERT_OK(Unpublish());
  // The kubelet does not stage again while a pod wants the volume.
  ASSERT_OK(Publish("second"));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Unpublish("second"));
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AVolumeThatTheHostHasMountedForThePodStaysThere) {
  driver_->state().options().node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  handler_->Lose(Capability::POD_VOLUMES);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  ASSERT_OK(mounter_->Mount({.source = "volume", .target = Target(), .fs_type = "tmpfs"}));
  handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
  ASSERT_OK(Publish());  // as after a restart of the kubelet
  EXPECT_THAT(AskedOfDriver().runtime_supported_filesystems(), IsEmpty());
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(mounter_->Unmount(Target()));
}

TEST_F(VolumesTest, AVolumeThatIsStagedWithSecretsIsNotDeferred) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(kHandle);
  request.set_staging_target_path(Staging());
  *request.mutable_volume_capability() = Mount();
  (*request.mutable_secrets())["key"] = "canary";
  ASSERT_OK(platform::MakeFolders(Staging()));
  ASSERT_OK(volumes_->Stage(request));
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("secrets")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
}

TEST_F(VolumesTest, ADriverThatKnowsHandlersLeavesTheMount) {
  rpc::FakeCsiDriver::Options& driver = driver_->state().options();
  driver.node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  driver.deferred.emplace();
  driver.deferred->set_source(disk_->device());
  driver.deferred->set_type("xfs");
  AddPod(kPod, "sandboxed", {{"fsGroup", 3000}, {"seLinuxOptions", {{"level", "s0:c1"}}}});
  ASSERT_OK(Stage());
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Publish());
  EXPECT_THAT(AskedOfDriver().runtime_supported_filesystems(), ElementsAre("ext4", "xfs"));
  EXPECT_EQ(AskedOfHandler().host_volume_id(), disk_->device());
  EXPECT_EQ(AskedOfHandler().file_system(), "xfs");
  EXPECT_EQ(AskedOfHandler().fsgroup_gid(), 3000);
  EXPECT_EQ(AskedOfHandler().selinux_label(), "system_u:object_r:container_file_t:s0:c1");
  EXPECT_TRUE(AskedOfHandler().selinux_relabel());
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, StatisticsAndGrowthComeFromTheSandbox) {
  driver_->state().options().node_capabilities = {NodeRpc::STAGE_UNSTAGE_VOLUME,
                                                  NodeRpc::EXPAND_VOLUME};
  const auto capabilities = volumes_->GetCapabilities({});
  ASSERT_OK(capabilities);
  EXPECT_TRUE(volume::ReadNodeCapabilities(*capabilities).volume_stats);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  handler_->options().abnormal = "it does not answer";
  csi::v1::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id(kHandle);
  stats.set_volume_path(Target());
  const auto usage = volumes_->GetStats(stats);
  ASSERT_OK(usage);
  EXPECT_EQ(usage->usage(0).total(), handler_->options().total_bytes);
  EXPECT_EQ(usage->volume_condition().message(), "it does not answer");

  csi::v1::NodeExpandVolumeRequest grow;
  grow.set_volume_id(kHandle);
  grow.set_volume_path(Target());
  grow.set_staging_target_path(Staging());
  grow.mutable_capacity_range()->set_required_bytes(1 << 21);
  *grow.mutable_volume_capability() = Mount();
  const auto grown = volumes_->Expand(grow);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->capacity_bytes(), 1 << 21);
  const auto asked =
      driver_->script().LastRequest<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume");
  EXPECT_EQ(asked.volume_path(), AskedOfDriver().target_path());
  EXPECT_TRUE(asked.volume_capability().has_block());
  handler_->Lose(Capability::VOLUME_RESIZE);
  EXPECT_EQ(volumes_->Expand(grow).status().code(), StatusCode::kFailedPrecondition);
}

// The points that the life of a volume passes in the proxy.
constexpr const char* kPoints[] = {
    "crustproxy.volume.write.before",         "crustproxy.volume.write.temp",
    "crustproxy.volume.write.after",          "crustproxy.volume.remove.before",
    "crustproxy.volume.remove.after",         "rpc.csi.NodeStageVolume.before",
    "rpc.csi.NodeStageVolume.after",          "rpc.csi.NodePublishVolume.before",
    "rpc.csi.NodePublishVolume.after",        "rpc.crust.RuntimePublishVolume.before",
    "rpc.crust.RuntimePublishVolume.after",   "rpc.crust.RuntimeUnpublishVolume.before",
    "rpc.crust.RuntimeUnpublishVolume.after", "rpc.csi.NodeUnpublishVolume.before",
    "rpc.csi.NodeUnpublishVolume.after",      "rpc.csi.NodeUnstageVolume.before",
    "rpc.csi.NodeUnstageVolume.after"};

// A call that is cut short and a process that begins anew are what is left of a crash. The kubelet
// repeats the call that got no answer.
TEST_F(VolumesTest, AProxyThatEndsAtAnyPointGoesOnAfterItsRestart) {
  const std::vector<std::function<Status()>> life = {
      [this] { return Stage(); }, [this] { return Publish(); }, [this] { return Unpublish(); },
      [this] { return Unstage(); }};
  for (const bool left_by_driver : {false, true}) {
    if (left_by_driver) {
      rpc::FakeCsiDriver::Options& driver = driver_->state().options();
      driver.node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
      driver.deferred.emplace();
      driver.deferred->set_source(disk_->device());
      driver.deferred->set_type("ext4");
    }
    std::set<std::string> passed;
    for (const std::string point : kPoints) {
      for (int passage = 1; passage < 20; ++passage) {
        SCOPED_TRACE(
            fmt::format("{}, passage {}, left by the driver: {}", point, passage, left_by_driver));
        size_t step = 0;
        {
          const std::string fault = fmt::format("{}=error:ABORTED@{}", point, passage);
          const base::FakeFaults faults(fault.c_str());
          while (step < life.size() && life[step]().ok()) ++step;
        }
        if (step == life.size()) break;
        passed.insert(point);
        Restart();
        for (; step < life.size(); ++step) ASSERT_OK(life[step]());
        ExpectNothingIsLeft();
      }
    }
    EXPECT_EQ(passed.size(), std::size(kPoints));
  }
}

TEST_F(VolumesTest, WithoutTheApiNothingIsDecided) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  client_.SetOutage(base::OkStatus());
  ASSERT_OK(Stage());
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(Publish().code(), StatusCode::kUnavailable);
  client_.SetOutage(base::OkStatus());
  ASSERT_OK(Publish());
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace berth::crustproxy
