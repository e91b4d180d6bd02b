#include "csidriver/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::csidriver {
namespace {

using base::StatusCode;
using csi::v1::VolumeCapability;
using testing::ElementsAre;
using testing::HasSubstr;

const Offer kOffer{.topology_key = "topology.local.csi.berth.dev/node",
                   .node_id = "node-1",
                   .fs_types = {"ext4", "xfs"}};

VolumeCapability Mount(const std::string& fs_type = "",
                       AccessMode::Mode mode = AccessMode::SINGLE_NODE_WRITER) {
  VolumeCapability capability;
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

VolumeCapability Block() {
  VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(AccessMode::SINGLE_NODE_WRITER);
  return capability;
}

csi::v1::CreateVolumeRequest Create() {
  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-1");
  *request.add_volume_capabilities() = Mount();
  return request;
}

// What ParseCreateVolume says to a request changed by `change`.
base::Status Refusal(const std::function<void(csi::v1::CreateVolumeRequest&)>& change) {
  csi::v1::CreateVolumeRequest request = Create();
  change(request);
  return ParseCreateVolume(request, kOffer).status();
}

TEST(ValidateTest, ACreateVolumeOfTheUsualKind) {
  csi::v1::CreateVolumeRequest request = Create();
  request.mutable_capacity_range()->set_required_bytes(5);
  (*request.mutable_parameters())["csi.storage.k8s.io/pvc/name"] = "claim";
  const auto volume = ParseCreateVolume(request, kOffer);
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(volume->name, "pvc-1");
  EXPECT_EQ(volume->fs_type, "ext4");  // the default
  EXPECT_EQ(volume->access, block::AccessType::kMount);
  EXPECT_EQ(volume->size.required, 5);
}

TEST(ValidateTest, WhatACreateVolumeMustNotBe) {
  struct Case {
    const char* message;  // a part of it
    StatusCode code;
    std::function<void(csi::v1::CreateVolumeRequest&)> change;
  };
  const auto invalid = StatusCode::kInvalidArgument;
  for (const Case& c : std::vector<Case>{
           {"'name' is missing", invalid, [](auto& r) { r.clear_name(); }},
           {"control character", invalid, [](auto& r) { r.set_name("a\x01"); }},
           {"control character", invalid, [](auto& r) { r.set_name("a\xc2\x85"); }},
           {"'name' is longer than 128", invalid,
            [](auto& r) { r.set_name(std::string(129, 'a')); }},
           {"'volume_capabilities' is missing", invalid,
            [](auto& r) { r.clear_volume_capabilities(); }},
           {"no access type", invalid,
            [](auto& r) { r.mutable_volume_capabilities(0)->clear_mount(); }},
           {"no access mode", invalid,
            [](auto& r) { r.mutable_volume_capabilities(0)->clear_access_mode(); }},
           {"access mode is missing", invalid,
            [](auto& r) {
              r.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(
                  AccessMode::UNKNOWN);
            }},
           {"MULTI_NODE_MULTI_WRITER is not supported", invalid,
            [](auto& r) {
              *r.mutable_volume_capabilities(0) = Mount("", AccessMode::MULTI_NODE_MULTI_WRITER);
            }},
           {"'zfs' is not supported; supported: ext4, xfs", invalid,
            [](auto& r) { *r.mutable_volume_capabilities(0) = Mount("zfs"); }},
           {"not both", invalid, [](auto& r) { *r.add_volume_capabilities() = Block(); }},
           {"ask for file systems", invalid,
            [](auto& r) { *r.add_volume_capabilities() = Mount("xfs"); }},
           {"unknown parameter 'colour'", invalid,
            [](auto& r) { (*r.mutable_parameters())["colour"] = "red"; }},
           {"'parameters' is larger than 4096", invalid,
            [](auto& r) {
              (*r.mutable_parameters())["csi.storage.k8s.io/x"] = std::string(4096, 'x');
            }},
           {"'secrets' is larger than 4096", invalid,
            [](auto& r) { (*r.mutable_secrets())["key"] = std::string(4096, 'x'); }},
           {"mutable_parameters", invalid,
            [](auto& r) { (*r.mutable_mutable_parameters())["a"] = "b"; }},
           {"'limit_bytes' is negative", invalid,
            [](auto& r) { r.mutable_capacity_range()->set_limit_bytes(-1); }},
           {"neither a snapshot nor a volume", invalid,
            [](auto& r) { r.mutable_volume_content_source(); }},
           {"has no id", invalid,
            [](auto& r) { r.mutable_volume_content_source()->mutable_snapshot(); }},
           {"volume_mount_group", invalid,
            [](auto& r) {
              r.mutable_volume_capabilities(0)->mutable_mount()->set_volume_mount_group("1000");
            }},
           {"none of the requisite topologies", StatusCode::kResourceExhausted,
            [](auto& r) {
              auto& segments =
                  *r.mutable_accessibility_requirements()->add_requisite()->mutable_segments();
              segments[kOffer.topology_key] = "node-2";
            }},
       }) {
    const base::Status status = Refusal(c.change);
    EXPECT_EQ(status.code(), c.code) << c.message;
    EXPECT_THAT(std::string(base::Message(status)), HasSubstr(c.message));
  }
}

TEST(ValidateTest, TopologyIsHereWhateverTheCaseOfItsKey) {
  csi::v1::CreateVolumeRequest request = Create();
  auto& requirement = *request.mutable_accessibility_requirements();
  (*requirement.add_requisite()->mutable_segments())[kOffer.topology_key] = "node-2";
  (*requirement.add_requisite()->mutable_segments())["Topology.local.CSI.berth.dev/Node"] =
      "node-1";
  EXPECT_TRUE(ParseCreateVolume(request, kOffer).ok());
  csi::v1::Topology other;
  (*other.mutable_segments())["zone"] = "node-1";
  EXPECT_FALSE(IncludesThisNode(other, kOffer));
}

// A mount pod with the utilities may come after the driver has started.
TEST(ValidateTest, AFileSystemThatIsSupportedLaterIsLookedForWhenItIsAskedFor) {
  Offer offer = kOffer;
  offer.check_now = [](const std::string& type) {
    if (type == "btrfs") return base::OkStatus();
    return base::Error(StatusCode::kUnavailable, "the mount pod does not answer");
  };
  EXPECT_TRUE(ParseCapability(Mount("btrfs"), offer).ok());
  const base::Status refused = ParseCapability(Mount("zfs"), offer).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(refused)),
              testing::HasSubstr("'zfs' is not supported: the mount pod does not answer"));
  EXPECT_EQ(ParseCapability(Mount("btrfs"), kOffer).status().code(), StatusCode::kInvalidArgument);
}

TEST(ValidateTest, MountFlagsAreSplitAndThoseThatMakeAnotherMountRefused) {
  VolumeCapability capability = Mount();
  capability.mutable_mount()->add_mount_flags("noatime,discard");
  capability.mutable_mount()->add_mount_flags("nodev");
  const auto parsed = ParseCapability(capability, kOffer);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->mount_flags, ElementsAre("noatime", "discard", "nodev"));
  for (const char* flag :
       {"bind", "remount", "noatime,rbind", "loop=/dev/loop9", "rshared", "x-y", "a b", "a\nb"}) {
    VolumeCapability bad = Mount();
    bad.mutable_mount()->add_mount_flags(flag);
    EXPECT_EQ(ParseCapability(bad, kOffer).status().code(), StatusCode::kInvalidArgument) << flag;
  }
  csi::v1::NodeStageVolumeRequest large;
  for (int i = 0; i < 42; ++i) {
    large.mutable_volume_capability()->mutable_mount()->add_mount_flags(std::string(100, 'f'));
  }
  EXPECT_EQ(CheckLimits(large).code(), StatusCode::kInvalidArgument);
}

TEST(ValidateTest, TheDigestTellsCapabilitiesApartAndNotTheFlags) {
  Capability a{.mount_flags = {"password=x"}};
  Capability b = a;
  EXPECT_EQ(a.Digest(), b.Digest());
  EXPECT_EQ(a.Digest().find("password"), std::string::npos);
  b.mode = AccessMode::SINGLE_NODE_MULTI_WRITER;
  EXPECT_NE(a.Digest(), b.Digest());
  b = a;
  b.mount_flags.push_back("ro");
  EXPECT_NE(a.Digest(), b.Digest());
}

TEST(ValidateTest, PathsAreAbsoluteAndGoNowhereElse) {
  EXPECT_EQ(*CheckPath("p", "/a//b/c/"), "/a/b/c");
  EXPECT_EQ(*CheckPath("p", "/" + std::string(4094, 'a')), "/" + std::string(4094, 'a'));
  for (const std::string& path :
       {std::string(), std::string("a/b"), std::string("/"), std::string("/a/../b"),
        std::string("/a/./b"), "/" + std::string(4095, 'a')}) {
    EXPECT_EQ(CheckPath("p", path).status().code(), StatusCode::kInvalidArgument) << path;
  }
  csi::v1::NodeStageVolumeRequest request;
  request.set_staging_target_path("/" + std::string(4000, 'a'));
  EXPECT_TRUE(CheckLimits(request).ok());
  request.set_volume_id(std::string(129, 'a'));
  EXPECT_FALSE(CheckLimits(request).ok());
}

TEST(ValidateTest, TheTableOfSecondPublishes) {
  struct Case {
    AccessMode::Mode mode;
    StatusCode other_target;
  };
  for (const Case& c : std::vector<Case>{
           {AccessMode::MULTI_NODE_MULTI_WRITER, StatusCode::kOk},
           {AccessMode::MULTI_NODE_READER_ONLY, StatusCode::kOk},
           {AccessMode::SINGLE_NODE_MULTI_WRITER, StatusCode::kOk},
           {AccessMode::SINGLE_NODE_WRITER, StatusCode::kFailedPrecondition},
           {AccessMode::SINGLE_NODE_READER_ONLY, StatusCode::kFailedPrecondition},
           {AccessMode::SINGLE_NODE_SINGLE_WRITER, StatusCode::kFailedPrecondition},
       }) {
    EXPECT_EQ(CheckSecondPublish(c.mode, true, true).code(), StatusCode::kOk);
    EXPECT_EQ(CheckSecondPublish(c.mode, true, false).code(), StatusCode::kAlreadyExists);
    EXPECT_EQ(CheckSecondPublish(c.mode, false, true).code(), c.other_target);
    EXPECT_EQ(CheckSecondPublish(c.mode, false, false).code(), c.other_target);
  }
}

TEST(ValidateTest, AVolumeIdThatWasNeverGivenOutDoesNotExist) {
  EXPECT_EQ(CheckVolumeId("").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckVolumeId("../../etc/passwd").code(), StatusCode::kNotFound);
  EXPECT_TRUE(CheckVolumeId("01234567-89ab-cdef-0123-456789abcdef").ok());
}

}  // namespace
}  // namespace berth::csidriver
