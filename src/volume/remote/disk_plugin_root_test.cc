// What all disks of a network have in common, on real loop devices in place of the disks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <list>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/remote/disk_plugin.h"
#include "volume/remote/fake_real_host.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kDiskBytes = 64 << 20;

// A disk is an image file, and its map is a loop device.
class ImagePlugin : public DiskPlugin {
 public:
  explicit ImagePlugin(Host& host) : DiskPlugin(host, "kubernetes.io/rbd", "rbd") {}
  const std::list<platform::LoopDevice>& loops() const { return loops_; }
  void FailUnmap(bool fails) { fails_ = fails; }

 protected:
  StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const override {
    const std::string image = base::json::String(Source(spec), {"image"});
    return Disk{.identity = image,
                .fs_type = base::json::String(Source(spec), {"fsType"}),
                .read_only = IsReadOnly(spec),
                .state = {{"image", image}}};
  }
  StatusOr<std::string> MapDisk(const api::Pod&, const VolumeSpec&, const Disk& disk,
                                DiskMark& mark) override {
    if (!mark.device.empty()) return mark.device;
    ASSIGN_OR_RETURN(platform::LoopDevice loop, platform::AttachLoop(disk.identity, {}));
    loops_.push_back(loop);
    return loops_.back().path;
  }
  Status UnmapDisk(const DiskMark& mark) override {
    if (fails_) return base::Error(StatusCode::kUnavailable, "no pod has the utility");
    for (auto loop = loops_.begin(); loop != loops_.end(); ++loop) {
      if (loop->path != mark.device) continue;
      RETURN_IF_ERROR(platform::DetachLoop(*loop));
      loops_.erase(loop);
      break;
    }
    return base::OkStatus();
  }

 private:
  std::list<platform::LoopDevice> loops_;
  bool fails_ = false;
};

class DiskPluginRootTest : public testing::Test {
 protected:
  void TearDown() override {
    const auto table = host_.mounter().List();
    ASSERT_TRUE(table.ok());
    for (const auto& entry : *table) {
      EXPECT_FALSE(entry.mount_point.starts_with(folder_.path())) << entry.mount_point;
    }
    EXPECT_THAT(plugin_.loops(), IsEmpty());
    EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
  }
  std::string Image(const std::string& name, int64_t bytes) {
    const std::string image = folder_ / name;
    const base::UniqueFd fd(open(image.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(ftruncate(fd.get(), bytes), 0);
    return image;
  }
  static VolumeSpec Spec(const std::string& image, const Json& more = {}) {
    Json spec = {{"rbd", {{"image", image}}}};
    if (!more.is_null()) spec.merge_patch(more);
    return {.name = "vol",
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}}, {"spec", spec}})};
  }
  static VolumeSpec InlineSpec(const std::string& image, const std::string& ns) {
    return {.name = "vol",
            .pod_volume = api::PodVolume(Json{{"name", "vol"}, {"rbd", {{"image", image}}}}),
            .pod_ns = ns};
  }
  static api::Pod Pod(const std::string& uid, int group = 0) {
    Json pod = {{"metadata", {{"namespace", "shop"}, {"name", uid}, {"uid", uid}}}};
    if (group != 0) pod["spec"]["securityContext"]["fsGroup"] = group;
    return api::Pod(pod);
  }
  DeviceRecord DeviceOf(const VolumeSpec& spec) {
    return {.plugin = std::string(plugin_.name()),
            .device_name = **plugin_.DeviceName(spec),
            .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
            .state = *plugin_.DeviceState(spec)};
  }
  PodVolumeRecord RecordOf(const VolumeSpec& spec, const std::string& uid) {
    return {.plugin = std::string(plugin_.name()),
            .device_name = **plugin_.DeviceName(spec),
            .pod_uid = uid,
            .folder_name = spec.folder_name(),
            .block = spec.block(),
            .state = Json::object()};
  }
  StatusOr<Published> UseVolume(const VolumeSpec& spec, const api::Pod& pod) {
    RETURN_IF_ERROR(plugin_.MountDevice(pod, spec, {}));
    return plugin_.SetUp(pod, spec, {});
  }
  // Ends the last use. Another process's copy of the mount table may hold the device for a moment.
  void UnmountDevice(const VolumeSpec& spec) {
    Status unmounted = plugin_.UnmountDevice(DeviceOf(spec));
    for (int i = 0; i < 100 && unmounted.code() == StatusCode::kFailedPrecondition; ++i) {
      usleep(100'000);
      unmounted = plugin_.UnmountDevice(DeviceOf(spec));
    }
    ASSERT_OK(unmounted);
  }
  static gid_t GroupOf(const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
    return st.st_gid;
  }

  const platform::TempFolder folder_;
  RealHost host_{folder_ / "kubelet"};
  ImagePlugin plugin_{host_};
};

TEST_F(DiskPluginRootTest, ABlankDiskIsFormattedSharedByPodsAndKeepsItsData) {
  const VolumeSpec spec = Spec(Image("disk", kDiskBytes),
                               {{"rbd", {{"fsType", "ext4"}}}, {"mountOptions", {"noatime"}}});
  const auto first = UseVolume(spec, Pod("u-1", 4242));
  ASSERT_OK(first.status());
  EXPECT_EQ(host_.asked_for(), "kubernetes.io/rbd");
  ASSERT_OK(platform::WriteDurably<"test.file">(first->path + "/file", "data"));
  EXPECT_EQ(GroupOf(first->path), 4242);
  // The second pod shares the mount, and its fsGroup does not change the files of the first.
  const auto second = UseVolume(spec, Pod("u-2", 5555));
  ASSERT_OK(second.status());
  EXPECT_EQ(*platform::ReadFile(second->path + "/file"), "data");
  EXPECT_EQ(GroupOf(second->path), 4242);
  EXPECT_THAT(plugin_.loops(), SizeIs(1));
  EXPECT_GT(plugin_.GetStats(RecordOf(spec, "u-1"))->total_bytes, 0);
  const auto table = host_.mounter().List();
  const auto* mount = platform::FindMount(*table, plugin_.DevicePath(DeviceOf(spec)));
  ASSERT_NE(mount, nullptr);
  EXPECT_THAT(mount->options, testing::Contains("noatime"));

  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-1")));
  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-2")));
  UnmountDevice(spec);
  EXPECT_THAT(plugin_.loops(), IsEmpty());
  const auto third = UseVolume(spec, Pod("u-3"));
  ASSERT_OK(third.status());
  EXPECT_EQ(*platform::ReadFile(third->path + "/file"), "data");
  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-3")));
  UnmountDevice(spec);
}

TEST_F(DiskPluginRootTest, ADiskThatHoldsSomethingElseIsNotFormatted) {
  const VolumeSpec spec = Spec(Image("disk", kDiskBytes), {{"rbd", {{"fsType", "ext4"}}}});
  {
    const base::UniqueFd fd(open((folder_ / "disk").c_str(), O_WRONLY | O_CLOEXEC));
    const std::string data(4096, 'x');
    ASSERT_EQ(pwrite(fd.get(), data.data(), data.size(), 4096), 4096);
  }
  const Status refused = plugin_.MountDevice(Pod("u-1"), spec, {});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(base::Message(refused), HasSubstr("rbd volume 'pv-1'"));
  std::string head(4096, '\0');
  {
    const base::UniqueFd fd(open((folder_ / "disk").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(pread(fd.get(), head.data(), head.size(), 4096), 4096);
  }
  EXPECT_EQ(head, std::string(4096, 'x'));
  UnmountDevice(spec);
}

TEST_F(DiskPluginRootTest, WhoReadsSharesWithWhoWritesButNotTheOtherWayRound) {
  const std::string image = Image("disk", kDiskBytes);
  const VolumeSpec writer = Spec(image);
  const VolumeSpec reader = Spec(image, {{"rbd", {{"readOnly", true}}}});
  ASSERT_OK(UseVolume(writer, Pod("u-1")).status());
  const auto read = UseVolume(reader, Pod("u-2"));
  ASSERT_OK(read.status());
  EXPECT_TRUE(read->read_only);
  EXPECT_NE(open((read->path + "/x").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), 0);
  EXPECT_EQ(errno, EROFS);
  for (const char* uid : {"u-1", "u-2"}) ASSERT_OK(plugin_.TearDown(RecordOf(writer, uid)));
  UnmountDevice(writer);

  ASSERT_OK(UseVolume(reader, Pod("u-3")).status());
  const Status refused = UseVolume(writer, Pod("u-4")).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("pods of this node use the disk read-only"));
  ASSERT_OK(plugin_.TearDown(RecordOf(reader, "u-3")));
  UnmountDevice(reader);
}

TEST_F(DiskPluginRootTest, WhatWasLostFromTheRecordsIsFoundAndTakenDown) {
  const VolumeSpec spec = Spec(Image("disk", kDiskBytes));
  const VolumeSpec of_pod = InlineSpec(Image("other", kDiskBytes), "shop");
  ASSERT_OK(UseVolume(spec, Pod("u-1")).status());
  ASSERT_OK(UseVolume(of_pod, Pod("u-2")).status());
  const auto found = plugin_.FindOnNode();
  ASSERT_OK(found.status());
  ASSERT_THAT(found->devices, SizeIs(2));
  ASSERT_THAT(found->pod_volumes, SizeIs(2));
  for (const PodVolumeRecord& volume : found->pod_volumes) {
    const VolumeSpec& of = volume.pod_uid == "u-1" ? spec : of_pod;
    EXPECT_EQ(volume.device_name, **plugin_.DeviceName(of));
    ASSERT_OK(plugin_.TearDown(volume));
  }
  UnmountDevice(spec);
  UnmountDevice(of_pod);
}

TEST_F(DiskPluginRootTest, ARawDiskIsPublishedAsADevice) {
  const VolumeSpec spec = Spec(Image("disk", kDiskBytes), {{"volumeMode", "Block"}});
  const auto published = UseVolume(spec, Pod("u-1"));
  ASSERT_OK(published.status());
  EXPECT_TRUE(published->block);
  struct stat st = {};
  ASSERT_EQ(stat(published->path.c_str(), &st), 0);
  EXPECT_TRUE(S_ISBLK(st.st_mode));
  const auto found = plugin_.FindOnNode();
  ASSERT_THAT(found->pod_volumes, SizeIs(1));
  EXPECT_EQ(found->pod_volumes[0].device_name, found->devices[0].device_name);
  EXPECT_EQ(plugin_.DevicePath(DeviceOf(spec)), "");
  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-1")));
  UnmountDevice(spec);
  EXPECT_EQ(*platform::ProbeSignature(folder_ / "disk"), std::nullopt);  // nothing was made on it
}

TEST_F(DiskPluginRootTest, ARawDiskIsNotMountedMeanwhile) {
  const std::string image = Image("disk", kDiskBytes);
  const VolumeSpec raw = Spec(image, {{"volumeMode", "Block"}});
  ASSERT_OK(UseVolume(raw, Pod("u-1")).status());
  const Status refused = plugin_.MountDevice(Pod("u-2"), Spec(image), {});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("as a raw device"));
  ASSERT_OK(plugin_.TearDown(RecordOf(raw, "u-1")));
  UnmountDevice(raw);
  EXPECT_EQ(*platform::ProbeSignature(image), std::nullopt);
}

TEST_F(DiskPluginRootTest, ADiskThatCannotBeUnmappedStaysOnRecord) {
  const VolumeSpec spec = Spec(Image("disk", kDiskBytes));
  ASSERT_OK(UseVolume(spec, Pod("u-1")).status());
  ASSERT_OK(plugin_.TearDown(RecordOf(spec, "u-1")));
  plugin_.FailUnmap(true);
  EXPECT_EQ(plugin_.UnmountDevice(DeviceOf(spec)).code(), StatusCode::kUnavailable);
  EXPECT_THAT(plugin_.FindOnNode()->devices, SizeIs(1));
  plugin_.FailUnmap(false);
  UnmountDevice(spec);
}

}  // namespace
}  // namespace berth::volume
