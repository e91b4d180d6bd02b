// Local volumes on real loop devices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <list>

#include "base/assert_ok.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/remote/fake_real_host.h"
#include "volume/remote/local_volume.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kMiB = 1 << 20;

class LocalVolumeRootTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const platform::LoopDevice& loop : loops_) {
      base::Status detached = platform::DetachLoop(loop);
      for (int i = 0; i < 50 && detached.code() == StatusCode::kFailedPrecondition; ++i) {
        usleep(100'000);  // another process's copy of the mount table may hold it for a moment
        detached = platform::DetachLoop(loop);
      }
      EXPECT_TRUE(detached.ok()) << base::ToString(detached);
    }
    const auto table = host_.mounter().List();
    ASSERT_TRUE(table.ok());
    for (const auto& entry : *table) {
      EXPECT_FALSE(entry.mount_point.starts_with(folder_.path())) << entry.mount_point;
    }
  }
  // A blank device.
  const platform::LoopDevice& Device(const std::string& name, int64_t bytes) {
    const std::string image = folder_ / name;
    const base::UniqueFd fd(open(image.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(ftruncate(fd.get(), bytes), 0);
    auto loop = platform::AttachLoop(image, {});
    EXPECT_TRUE(loop.ok()) << base::ToString(loop.status());
    loops_.push_back(*loop);
    return loops_.back();
  }
  static VolumeSpec Spec(const std::string& pv, const std::string& path, const Json& more = {}) {
    Json spec = {{"local", {{"path", path}}}};
    if (!more.is_null()) spec.merge_patch(more);
    return {.name = "vol",
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", pv}}}, {"spec", spec}})};
  }
  static api::Pod Pod(const std::string& uid, int group = 0) {
    Json pod = {{"metadata", {{"namespace", "shop"}, {"name", uid}, {"uid", uid}}}};
    if (group != 0) pod["spec"]["securityContext"]["fsGroup"] = group;
    return api::Pod(pod);
  }
  DeviceRecord DeviceRecordOf(const VolumeSpec& spec) {
    return {.plugin = std::string(plugin_.name()),
            .device_name = **plugin_.DeviceName(spec),
            .pv_name = spec.pv->name(),
            .state = *plugin_.DeviceState(spec)};
  }
  static PodVolumeRecord RecordOf(const VolumeSpec& spec, const std::string& uid) {
    return {.plugin = "kubernetes.io/local-volume",
            .pod_uid = uid,
            .folder_name = spec.pv->name(),
            .block = spec.block(),
            .state = Json::object()};
  }
  StatusOr<Published> UseVolume(const VolumeSpec& spec, const api::Pod& pod) {
    RETURN_IF_ERROR(plugin_.MountDevice(pod, spec, {}));
    return plugin_.SetUp(pod, spec, {});
  }
  void End(const VolumeSpec& spec, std::initializer_list<const char*> uids) {
    for (const char* uid : uids) ASSERT_OK(plugin_.TearDown(RecordOf(spec, uid)));
    ASSERT_OK(plugin_.UnmountDevice(DeviceRecordOf(spec)));
  }
  static gid_t GroupOf(const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
    return st.st_gid;
  }

  const platform::TempFolder folder_;
  RealHost host_{folder_ / "kubelet"};
  LocalVolumePlugin plugin_{host_};
  std::list<platform::LoopDevice> loops_;
};

class LocalDeviceRootTest : public LocalVolumeRootTest,
                            public testing::WithParamInterface<std::string> {};

TEST_P(LocalDeviceRootTest, ABlankDeviceIsFormattedSharedByPodsAndKeepsItsData) {
  const platform::LoopDevice& device = Device("disk", 320 * kMiB);
  const VolumeSpec spec = Spec(
      "pv-1", device.path, {{"local", {{"fsType", GetParam()}}}, {"mountOptions", {"noatime"}}});
  const auto first = UseVolume(spec, Pod("u-1", 4242));
  ASSERT_OK(first.status());
  EXPECT_EQ(host_.asked_for(), "kubernetes.io/local-volume");
  ASSERT_OK(platform::WriteDurably<"test.file">(first->path + "/file", "data"));
  EXPECT_EQ(GroupOf(first->path), 4242u);
  const auto table = host_.mounter().List();
  const platform::MountEntry* mount =
      platform::FindMount(*table, plugin_.DevicePath(DeviceRecordOf(spec)));
  ASSERT_NE(mount, nullptr);
  EXPECT_EQ(mount->fs_type, GetParam());
  EXPECT_THAT(mount->options, testing::Contains("noatime"));

  // Another pod on the node, which may only read; and both once more, as after a restart.
  VolumeSpec reading = spec;
  reading.read_only = true;
  const auto second = UseVolume(reading, Pod("u-2"));
  ASSERT_OK(second.status());
  EXPECT_EQ(*platform::ReadFile(second->path + "/file"), "data");
  EXPECT_FALSE(platform::WriteDurably<"test.file">(second->path + "/no", "x").ok());
  ASSERT_OK(UseVolume(spec, Pod("u-1", 4242)).status());
  ASSERT_OK(UseVolume(reading, Pod("u-2")).status());
  EXPECT_GT(plugin_.GetStats(RecordOf(spec, "u-1"))->total_bytes, 100 * kMiB);
  // The shared mount is lost, and made again while pods have the volume.
  ASSERT_OK(plugin_.UnmountDevice(DeviceRecordOf(spec)));
  EXPECT_EQ(plugin_.SetUp(Pod("u-3"), spec, {}).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(UseVolume(spec, Pod("u-3")).status());
  End(spec, {"u-1", "u-2", "u-3"});
  EXPECT_NE(access(plugin_.DevicePath(DeviceRecordOf(spec)).c_str(), F_OK), 0);

  // It is never formatted again, also when no type is asked for.
  const VolumeSpec any = Spec("pv-1", device.path);
  const auto again = UseVolume(any, Pod("u-4"));
  ASSERT_OK(again.status());
  EXPECT_EQ(*platform::ReadFile(again->path + "/file"), "data");
  End(any, {"u-4"});
}

TEST_P(LocalDeviceRootTest, AMountedFileSystemGrowsWithItsDevice) {
  const platform::LoopDevice device = Device("disk", 320 * kMiB);
  const VolumeSpec spec = Spec("pv-1", device.path, {{"local", {{"fsType", GetParam()}}}});
  const auto published = UseVolume(spec, Pod("u-1"));
  ASSERT_OK(published.status());
  ASSERT_OK(platform::WriteDurably<"test.file">(published->path + "/file", "data"));
  base::UniqueFd in_use(open((published->path + "/file").c_str(), O_RDWR | O_CLOEXEC));
  const int64_t before = plugin_.GetStats(RecordOf(spec, "u-1"))->total_bytes;
  const base::Status too_small = plugin_.Expand(RecordOf(spec, "u-1"), spec, 480 * kMiB);
  EXPECT_EQ(too_small.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(too_small), HasSubstr("grow the device first"));
  ASSERT_EQ(truncate((folder_ / "disk").c_str(), 480 * kMiB), 0);
  ASSERT_OK(platform::RefreshLoopSize(device).status());
  const base::Status grown = plugin_.Expand(RecordOf(spec, "u-1"), spec, 480 * kMiB);
  const bool may_not = GetParam() == "ext4" && grown.code() == StatusCode::kPermissionDenied;
  if (may_not) {
    EXPECT_THAT(base::Message(grown), HasSubstr("CAP_SYS_RESOURCE"));
  } else {
    ASSERT_OK(grown);
    EXPECT_GT(plugin_.GetStats(RecordOf(spec, "u-1"))->total_bytes, before + 100 * kMiB);
    ASSERT_OK(plugin_.Expand(RecordOf(spec, "u-1"), spec, 480 * kMiB));
  }
  EXPECT_EQ(pwrite(in_use.get(), "DA", 2, 0), 2);
  EXPECT_EQ(*platform::ReadFile(published->path + "/file"), "DAta");
  in_use.Reset();
  End(spec, {"u-1"});
  if (may_not) {
    GTEST_SKIP() << "growing a mounted ext4 needs CAP_SYS_RESOURCE, which root lacks here; "
                    "tests/vm runs this, too";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LocalDeviceRootTest, testing::Values("ext4", "xfs", "btrfs"),
                         [](const auto& info) { return info.param; });

TEST_F(LocalVolumeRootTest, ADeviceThatHoldsSomethingElseIsLeftAlone) {
  const std::string ext4 = Device("ext4", 32 * kMiB).path;
  ASSERT_OK(platform::FindFileSystem("ext4")->Format(host_.exec("test"), ext4, {}));
  const VolumeSpec as_xfs = Spec("pv-1", ext4, {{"local", {{"fsType", "xfs"}}}});
  const base::Status refused = plugin_.MountDevice(Pod("u"), as_xfs, {});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("mount local volume 'pv-1': device"));
  EXPECT_THAT(base::Message(refused), HasSubstr("holds ext4"));

  const std::string swap = Device("swap", 32 * kMiB).path;
  ASSERT_OK(platform::RunOk(host_.exec("test"), {.argv = {"mkswap", swap}}).status());
  for (const Json& more : {Json(), Json{{"local", {{"fsType", "ext4"}}}}}) {
    const base::Status kept = plugin_.MountDevice(Pod("u"), Spec("pv-2", swap, more), {});
    EXPECT_EQ(kept.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(kept), HasSubstr("holds swap"));
  }
  EXPECT_EQ((*platform::ProbeSignature(swap))->type, "swap");

  const std::string raw = Device("raw", 32 * kMiB).path;
  const base::UniqueFd fd(open((folder_ / "raw").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(fd.get(), "data", 4, 4096), 4);
  ASSERT_EQ(fsync(fd.get()), 0);
  EXPECT_THAT(base::Message(plugin_.MountDevice(Pod("u"), Spec("pv-3", raw), {})),
              HasSubstr("is not blank"));
  const base::Status vfat =
      plugin_.MountDevice(Pod("u"), Spec("pv-3", raw, {{"local", {{"fsType", "vfat"}}}}), {});
  EXPECT_THAT(base::Message(vfat), HasSubstr("can be mounted but not made"));
}

TEST_F(LocalVolumeRootTest, ADeviceIsOneVolumesAlone) {
  const std::string device = Device("disk", 32 * kMiB).path;
  const VolumeSpec spec = Spec("pv-1", device);
  ASSERT_OK(UseVolume(spec, Pod("u-1")).status());
  const base::Status twice = plugin_.MountDevice(Pod("u-2"), Spec("pv-2", device), {});
  EXPECT_EQ(twice.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(twice), HasSubstr("is in use: it is mounted at"));
  const VolumeSpec raw = Spec("pv-3", device, {{"volumeMode", "Block"}});
  EXPECT_EQ(plugin_.MountDevice(Pod("u-2"), raw, {}).code(), StatusCode::kFailedPrecondition);
  End(spec, {"u-1"});

  // A device that the node itself has mounted is not used either.
  ASSERT_OK(platform::MakeFolders(folder_ / "host"));
  ASSERT_OK(
      host_.mounter().Mount({.source = device, .target = folder_ / "host", .fs_type = "ext4"}));
  EXPECT_THAT(base::Message(plugin_.MountDevice(Pod("u-1"), spec, {})),
              HasSubstr("it is mounted at '" + folder_ / "host" + "'"));
  ASSERT_OK(host_.mounter().Unmount(folder_ / "host"));
}

TEST_F(LocalVolumeRootTest, AnotherMountInTheDevicesPlaceIsRefused) {
  const VolumeSpec spec = Spec("pv-1", Device("disk", 32 * kMiB).path);
  const std::string place = plugin_.DevicePath(DeviceRecordOf(spec));
  ASSERT_OK(platform::MakeFolders(place));
  ASSERT_OK(host_.mounter().Mount({.source = "tmpfs", .target = place, .fs_type = "tmpfs"}));
  EXPECT_THAT(base::Message(plugin_.MountDevice(Pod("u"), spec, {})),
              HasSubstr("another mount (tmpfs from"));
  EXPECT_EQ(plugin_.SetUp(Pod("u"), spec, {}).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(plugin_.UnmountDevice(DeviceRecordOf(spec)));
}

TEST_F(LocalVolumeRootTest, AFolderIsBoundAndItsOwnersAreTheFirstPods) {
  const std::string folder = folder_ / "data";
  ASSERT_OK(platform::MakeFolders(folder + "/sub"));
  const VolumeSpec spec = Spec("pv-1", folder);
  const auto first = UseVolume(spec, Pod("u-1", 4242));
  ASSERT_OK(first.status());
  ASSERT_OK(platform::WriteDurably<"test.file">(first->path + "/file", "data"));
  EXPECT_EQ(*platform::ReadFile(folder + "/file"), "data");
  EXPECT_EQ(GroupOf(folder + "/sub"), 4242u);
  // A second pod with another group gets it as it is, and is told.
  ASSERT_OK(UseVolume(spec, Pod("u-2", 5555)).status());
  EXPECT_EQ(GroupOf(folder + "/sub"), 4242u);
  ASSERT_THAT(host_.fake_events().events(), SizeIs(1));
  EXPECT_THAT(host_.fake_events().events()[0].message,
              HasSubstr("belongs to group 4242 of the pods that use it already; this pod asks for "
                        "fsGroup 5555"));
  EXPECT_EQ(plugin_.Expand(RecordOf(spec, "u-1"), spec, 1).code(), StatusCode::kUnimplemented);
  End(spec, {"u-1", "u-2"});
  EXPECT_EQ(*platform::ReadFile(folder + "/file"), "data");

  // Who only reads changes nothing.
  VolumeSpec reading = spec;
  reading.read_only = true;
  ASSERT_OK(UseVolume(reading, Pod("u-3", 5555)).status());
  EXPECT_EQ(GroupOf(folder + "/sub"), 4242u);
  // What stands in place of the bind is refused.
  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-3")));
  const std::string target =
      host_.paths().PodVolume(api::PodUid("u-3"), plugin_.name(), api::VolumeName("pv-1"));
  ASSERT_OK(platform::MakeFolders(target));
  ASSERT_OK(host_.mounter().Mount({.source = "tmpfs", .target = target, .fs_type = "tmpfs"}));
  EXPECT_THAT(base::Message(UseVolume(spec, Pod("u-3")).status()),
              HasSubstr("is not local volume"));
  End(spec, {"u-3"});
}

TEST_F(LocalVolumeRootTest, ADeviceIsPublishedAsItIs) {
  const platform::LoopDevice& device = Device("disk", 32 * kMiB);
  const VolumeSpec spec = Spec("pv-1", device.path, {{"volumeMode", "Block"}});
  const auto published = UseVolume(spec, Pod("u-1", 4242));
  ASSERT_OK(published.status());
  EXPECT_TRUE(published->block);
  struct stat st = {};
  ASSERT_EQ(stat(published->path.c_str(), &st), 0);
  EXPECT_TRUE(S_ISBLK(st.st_mode));
  EXPECT_EQ(st.st_rdev, device.device);
  const std::string link =
      host_.paths().PodDeviceLink(api::PodUid("u-1"), plugin_.name(), api::VolumeName("pv-1"));
  EXPECT_EQ(stat(link.c_str(), &st), 0);
  ASSERT_OK(UseVolume(spec, Pod("u-1")).status());

  // Records are lost: the marks say what there is.
  const auto found = plugin_.FindOnNode();
  ASSERT_OK(found.status());
  ASSERT_THAT(found->devices, SizeIs(1));
  EXPECT_EQ(plugin_.DevicePath(found->devices[0]), "");
  ASSERT_THAT(found->pod_volumes, SizeIs(1));
  EXPECT_TRUE(found->pod_volumes[0].block);
  EXPECT_EQ(found->pod_volumes[0].device_name, found->devices[0].device_name);
  ASSERT_OK(plugin_.TearDown(found->pod_volumes[0]));
  ASSERT_OK(plugin_.UnmountDevice(found->devices[0]));
  EXPECT_NE(access(published->path.c_str(), F_OK), 0);
  EXPECT_NE(lstat(link.c_str(), &st), 0);
  EXPECT_EQ(*platform::ProbeSignature(device.path), std::nullopt);  // nothing was made on it
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());

  const VolumeSpec no_device = Spec("pv-2", folder_.path(), {{"volumeMode", "Block"}});
  EXPECT_THAT(base::Message(plugin_.MountDevice(Pod("u-1"), no_device, {})),
              HasSubstr("is no block device, which volumeMode Block of volume 'pv-2' needs"));
}

TEST_F(LocalVolumeRootTest, MountsAreFoundByTheirFolders) {
  const VolumeSpec spec = Spec("pv-1", Device("disk", 32 * kMiB).path);
  ASSERT_OK(UseVolume(spec, Pod("u-1")).status());
  const auto found = plugin_.FindOnNode();
  ASSERT_OK(found.status());
  ASSERT_THAT(found->devices, SizeIs(1));
  ASSERT_THAT(found->pod_volumes, SizeIs(1));
  EXPECT_EQ(found->devices[0].pv_name, "pv-1");
  EXPECT_EQ(plugin_.DevicePath(found->devices[0]), host_.paths().LocalMount("pv-1"));
  ASSERT_OK(plugin_.TearDown(found->pod_volumes[0]));
  ASSERT_OK(plugin_.UnmountDevice(found->devices[0]));
}

TEST_F(LocalVolumeRootTest, APathThatLeadsNowhereIsNamed) {
  const base::Status gone = plugin_.MountDevice(Pod("u"), Spec("pv-1", folder_ / "gone"), {});
  EXPECT_EQ(gone.code(), StatusCode::kNotFound);
  EXPECT_THAT(base::Message(gone), HasSubstr("there is nothing at"));
  EXPECT_EQ(plugin_.MountDevice(Pod("u"), Spec("pv-1", "relative"), {}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(plugin_.MountDevice(Pod("u"), Spec("pv-1", "/a/../b"), {}).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::volume
