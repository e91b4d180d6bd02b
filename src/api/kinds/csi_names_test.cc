#include "api/kinds/csi_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::api {
namespace {

TEST(CsiNamesTest, MatchesKubernetesToTheByte) {
  EXPECT_EQ(VolumeAttachmentName(VolumeHandle("vol-1"), "demo.csi.example.com", NodeName("node-a")),
            "csi-7a7581186f3482ce8cae0c7380dcc117f2a251119d8f2e4fdf4882e24cbce465");
  EXPECT_EQ(
      InlineVolumeHandle(PodUid("11111111-2222-3333-4444-555555555555"), VolumeName("scratch")),
      "csi-a46bec53679aafe7e6bc42077f33be9e5c533643ed1224b3bfbf2dd627bbf53c");
  EXPECT_EQ(UniqueVolumeName("demo.csi.example.com", VolumeHandle("vol-1")),
            "kubernetes.io/csi/demo.csi.example.com^vol-1");
}

TEST(CsiNamesTest, UniqueVolumeNamesReadBack) {
  const auto parsed =
      ParseUniqueVolumeName(UniqueVolumeName("d.example.com", VolumeHandle("a^b/c")));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->driver, "d.example.com");
  EXPECT_EQ(parsed->volume_handle, "a^b/c");
  for (const std::string_view name :
       {"", "kubernetes.io/csi/", "kubernetes.io/csi/driver", "kubernetes.io/csi/^x",
        "kubernetes.io/csi/d^", "kubernetes.io/flexvolume/d^x"}) {
    EXPECT_FALSE(ParseUniqueVolumeName(name).has_value()) << name;
  }
}

TEST(CheckCsiDriverName, TakesDomainNamesOfAnyCase) {
  for (const std::string name : {"a", "local.csi.berth.dev", "CSI.Vendor-9.example", "9.b"}) {
    EXPECT_TRUE(CheckCsiDriverName(name).ok()) << name;
  }
  EXPECT_TRUE(IsCsiDriverName(std::string(63, 'a')));
}

TEST(CheckCsiDriverName, RefusesWhatIsTooLongOrUglyAndSaysWhy) {
  EXPECT_THAT(std::string(base::Message(CheckCsiDriverName(std::string(64, 'a')))),
              testing::HasSubstr("it has 64 characters, and at most 63 are allowed"));
  for (const std::string name : {"", "..", "a/b", "../../etc", "a_b", "a b", "-a", "a-", "a.", ".a",
                                 "a..b", "a-.b", "a.-b", "\xc3\xa4"}) {
    EXPECT_EQ(CheckCsiDriverName(name).code(), base::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace berth::api
