#include "api/kinds/attachable.h"

#include <gtest/gtest.h>

#include "api/kinds/csi_names.h"

namespace berth::api {
namespace {

PersistentVolume Volume(const base::Json& source) {
  PersistentVolume volume;
  volume.set_name("pv-1");
  volume.Set({"spec"}, source);
  return volume;
}

TEST(Attachable, OfCsiIsItsDriverWithTheHandle) {
  const auto csi =
      AttachableOf(Volume({{"csi", {{"driver", "d.example.com"}, {"volumeHandle", "h^1"}}}}));
  ASSERT_TRUE(csi.has_value());
  EXPECT_EQ(csi->attacher, "d.example.com");
  EXPECT_EQ(csi->handle, "h^1");
  EXPECT_EQ(csi->unique_name, "kubernetes.io/csi/d.example.com^h^1");
  EXPECT_EQ(csi->AttachmentName(NodeName("n")),
            VolumeAttachmentName(VolumeHandle("h^1"), "d.example.com", NodeName("n")));
}

TEST(Attachable, OfFlexvolumeIsOneForAllDrivers) {
  const auto flex = AttachableOf(Volume({{"flexVolume", {{"driver", "acme.io/block"}}}}));
  ASSERT_TRUE(flex.has_value());
  EXPECT_EQ(flex->attacher, kFlexAttacher);
  EXPECT_EQ(flex->unique_name, "flexvolume-acme.io/block/pv-1");
  // Two drivers' volumes never have one attachment.
  const auto other = AttachableOf(Volume({{"flexVolume", {{"driver", "acme.io/other"}}}}));
  EXPECT_NE(flex->AttachmentName(NodeName("n")), other->AttachmentName(NodeName("n")));
}

TEST(Attachable, IsFoundByItsNameInANodesLists) {
  for (const char* name : {"kubernetes.io/csi/d^h", "flexvolume-acme.io/block/pv-1"}) {
    const auto parsed = ParseUniqueName(name);
    ASSERT_TRUE(parsed.has_value()) << name;
    EXPECT_EQ(parsed->unique_name, name);
  }
  EXPECT_EQ(ParseUniqueName("flexvolume-acme.io/block/pv-1")->AttachmentName(NodeName("n")),
            AttachableOf(Volume({{"flexVolume", {{"driver", "acme.io/block"}}}}))
                ->AttachmentName(NodeName("n")));
}

TEST(Attachable, IsNothingElse) {
  EXPECT_FALSE(AttachableOf(Volume({{"nfs", {{"server", "s"}}}})).has_value());
  EXPECT_FALSE(ParseUniqueName("kubernetes.io/iscsi/x").has_value());
}

}  // namespace
}  // namespace berth::api
