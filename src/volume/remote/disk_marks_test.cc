#include "volume/remote/disk_marks.h"

#include <gmock/gmock.h>

#include "base/assert_ok.h"
#include "platform/files/durable_file.h"
#include "volume/remote/disk_fixture.h"
#include "volume/remote/rbd.h"

namespace berth::volume {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class DiskMarksTest : public DiskTest {};

TEST_F(DiskMarksTest, WhatACrashLeftOfAMarkGoesWhenTheDisksAreFoundAndTheMarksStay) {
  RbdPlugin plugin(host_);
  EXPECT_THAT(plugin.FindOnNode()->devices, IsEmpty());  // there is no folder yet
  const DiskMarks marks(host_.paths(), plugin.name());
  ASSERT_OK(marks.Write({.device_name = "kubernetes.io/rbd/kube/data"}));
  const std::string folder = host_.paths().DiskMarks(plugin.name());
  const std::string mark = DiskMarks::DigestOf("kubernetes.io/rbd/kube/data") + ".json";
  for (const std::string& torn : {mark, std::string("other.json")}) {
    ASSERT_OK(platform::WriteDurably<"test.file">(folder + "/." + torn + ".tmp-Ab12Cd", "{"));
  }
  EXPECT_THAT(*marks.List(), SizeIs(1));
  EXPECT_THAT(plugin.FindOnNode()->devices, SizeIs(1));
  EXPECT_THAT(*platform::ListFolder(folder), ElementsAre(mark));
}

}  // namespace
}  // namespace berth::volume
