#include "volume/csi/csi_volume.h"

#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume::csi_volume {
namespace {

using base::StatusCode;
using Mode = csi::v1::VolumeCapability::AccessMode;

class CsiVolumeTest : public CsiFixture {
 protected:
  static Volume Read(const Json& changes) {
    const auto volume = ReadVolume(Persistent(changes), nullptr);
    EXPECT_TRUE(volume.ok()) << volume.status();
    return volume.ok() ? *volume : Volume();
  }
};

TEST_F(CsiVolumeTest, AccessModesAreMappedAsTheKubeletDoes) {
  const std::vector<std::tuple<Json, Mode::Mode, Mode::Mode>> table = {
      {Json({"ReadWriteOnce"}), Mode::SINGLE_NODE_WRITER, Mode::SINGLE_NODE_MULTI_WRITER},
      {Json({"ReadOnlyMany"}), Mode::MULTI_NODE_READER_ONLY, Mode::MULTI_NODE_READER_ONLY},
      {Json({"ReadWriteMany"}), Mode::MULTI_NODE_MULTI_WRITER, Mode::MULTI_NODE_MULTI_WRITER},
      {Json({"ReadWriteOncePod"}), Mode::SINGLE_NODE_WRITER, Mode::SINGLE_NODE_SINGLE_WRITER},
      {Json({"ReadWriteMany", "ReadWriteOnce"}), Mode::MULTI_NODE_MULTI_WRITER,
       Mode::MULTI_NODE_MULTI_WRITER},
      {Json(nullptr), Mode::SINGLE_NODE_WRITER, Mode::SINGLE_NODE_MULTI_WRITER},
  };
  for (const auto& [modes, without, with] : table) {
    const Volume volume = Read({{"accessModes", modes}});
    EXPECT_EQ(MakeCapability(volume, {}, std::nullopt).access_mode().mode(), without) << modes;
    EXPECT_EQ(MakeCapability(volume, {.single_node_multi_writer = true}, std::nullopt)
                  .access_mode()
                  .mode(),
              with)
        << modes;
  }
}

TEST_F(CsiVolumeTest, FsGroupFollowsTheDriversPolicy) {
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", 1000}}}});
  const auto applies = [&](const char* policy, const Json& pv, const api::Pod& for_pod,
                           NodeCapabilities capabilities = {}) {
    Json spec = Json::object();
    if (policy != nullptr) spec["fsGroupPolicy"] = policy;
    return NodeAppliesFsGroup(Read(pv), capabilities, api::CsiDriver({{"spec", spec}}), for_pod);
  };
  const Json any = Json::object();
  const Json no_type = {{"csi", {{"fsType", nullptr}}}};
  const Json many = {{"accessModes", {"ReadWriteMany"}}};
  const Json one_pod = {{"accessModes", {"ReadWriteOncePod"}}};
  EXPECT_TRUE(applies(nullptr, any, pod));
  EXPECT_TRUE(applies("ReadWriteOnceWithFSType", any, pod));
  EXPECT_TRUE(applies("ReadWriteOnceWithFSType", one_pod, pod));
  EXPECT_FALSE(applies("ReadWriteOnceWithFSType", no_type, pod));
  EXPECT_FALSE(applies("ReadWriteOnceWithFSType", many, pod));
  EXPECT_TRUE(applies("File", many, pod));
  EXPECT_TRUE(applies("File", no_type, pod));
  EXPECT_FALSE(applies("None", any, pod));
  EXPECT_FALSE(applies("File", any, Pod()));
  EXPECT_FALSE(applies("File", {{"csi", {{"readOnly", true}}}}, pod));
  EXPECT_FALSE(applies("File", {{"volumeMode", "Block"}}, pod));
  EXPECT_FALSE(applies("File", any, pod, {.volume_mount_group = true}));
}

TEST_F(CsiVolumeTest, NamesThatWouldLeadOutOfTheirFolderAreRefused) {
  for (const std::string& driver :
       std::vector<std::string>{"", "..", "../x", "a/b", ".a", "a.", "a b", std::string(64, 'a')}) {
    const auto volume = ReadVolume(Persistent({{"csi", {{"driver", driver}}}}), nullptr);
    EXPECT_EQ(volume.status().code(), StatusCode::kInvalidArgument) << driver;
    EXPECT_EQ(ReadRecord({{"driver", driver}, {"volumeHandle", "v"}}).status().code(),
              StatusCode::kInvalidArgument)
        << driver;
  }
  EXPECT_EQ(ReadVolume(Persistent({{"csi", {{"volumeHandle", ""}}}}), nullptr).status().code(),
            StatusCode::kInvalidArgument);
  VolumeSpec inline_volume = Inline();
  inline_volume.name = "..";
  const api::Pod pod = Pod();
  EXPECT_EQ(ReadVolume(inline_volume, &pod).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CsiVolumeTest, TheDevicesNameIsTheKubelets) {
  EXPECT_EQ(**plugin_->DeviceName(Persistent()), "kubernetes.io/csi/fake.csi.example.com^vol-1");
  EXPECT_TRUE(plugin_->Supports(Persistent()));
  EXPECT_TRUE(plugin_->Supports(Inline()));
  EXPECT_FALSE(plugin_->Supports(Persistent({{"csi", nullptr}, {"hostPath", {{"path", "/x"}}}})));
  EXPECT_FALSE(plugin_->Supports(
      {.name = "x", .pod_volume = api::PodVolume({{"name", "x"}, {"emptyDir", Json::object()}})}));
}

TEST_F(CsiVolumeTest, AttachIsNeededUnlessTheDriverSaysNo) {
  EXPECT_TRUE(*plugin_->NeedsAttach(Persistent()));
  PutDriver({{"attachRequired", false}});
  EXPECT_FALSE(*plugin_->NeedsAttach(Persistent()));
  host_.Remove(api::kinds::kCsiDriver, "", kDriver);
  EXPECT_TRUE(*plugin_->NeedsAttach(Persistent()));
}

TEST_F(CsiVolumeTest, WhatIsRecordedIsReadBack) {
  const Volume volume = Read({{"volumeMode", "Block"}});
  const auto record = ReadRecord(ToJson(volume));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->driver, kDriver);
  EXPECT_EQ(record->handle, "vol-1");
  EXPECT_TRUE(record->block);
}

}  // namespace
}  // namespace berth::volume::csi_volume
