#include "api/kinds/runtime_mount.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::Json ClassAllowing(const std::string& modes) {
  return {
      {"metadata", {{"name", "sandboxed"}, {"annotations", {{kAccessModesAnnotation, modes}}}}}};
}

TEST(RuntimeMount, FieldsAndAnnotationsSayTheSame) {
  EXPECT_TRUE(AllowsRuntimeAssistedMount({{"allowRuntimeAssistedMount", true}}));
  EXPECT_TRUE(
      AllowsRuntimeAssistedMount({{"metadata", {{"annotations", {{kAllowAnnotation, "true"}}}}}}));
  EXPECT_FALSE(AllowsRuntimeAssistedMount({{"allowRuntimeAssistedMount", false}}));
  EXPECT_FALSE(AllowsRuntimeAssistedMount(base::Json()));
  EXPECT_EQ(FindHandlerSocket({{"fsMgmtSocket", "/run/a.sock"}}), "/run/a.sock");
  EXPECT_EQ(
      FindHandlerSocket({{"metadata", {{"annotations", {{kSocketAnnotation, "/run/b.sock"}}}}}}),
      "/run/b.sock");
  EXPECT_EQ(FindHandlerSocket({{"handler", "runc"}}), "");
}

TEST(RuntimeMount, SecretsAreAllowedByTheirOwnAnnotation) {
  EXPECT_TRUE(
      AllowsSecrets({{"metadata", {{"annotations", {{kAllowSecretsAnnotation, "true"}}}}}}));
  EXPECT_FALSE(AllowsSecrets({{"allowRuntimeAssistedMount", true}}));
}

TEST(RuntimeMount, AClassSaysWhichAccessModesClaimsOfItsPodsMayHave) {
  const base::Json strict = ClassAllowing(" ReadWriteOncePod, ReadOnlyMany");
  EXPECT_THAT(*FindAllowedModes(strict), ElementsAre("ReadWriteOncePod", "ReadOnlyMany"));
  EXPECT_EQ(FindReasonAgainstModes(strict, "data", {"ReadWriteOncePod"}), "");
  EXPECT_EQ(FindReasonAgainstModes(strict, "data", {"ReadOnlyMany"}), "");
  EXPECT_EQ(FindReasonAgainstModes(strict, "data", {"ReadOnlyMany", "ReadWriteOnce"}),
            "claim 'data' has access mode ReadWriteOnce, but claims of pods with RuntimeClass "
            "'sandboxed' may only have ReadWriteOncePod, ReadOnlyMany (its annotation "
            "storage.berth.dev/sandbox-access-modes); use a claim with an allowed mode, because "
            "the modes of a claim cannot be changed, or another RuntimeClass");
}

TEST(RuntimeMount, AClassWithoutThatSettingAllowsAllModesAndAnEmptyOneNone) {
  EXPECT_FALSE(FindAllowedModes({{"handler", "runc"}}).has_value());
  EXPECT_EQ(FindReasonAgainstModes({{"handler", "runc"}}, "data", {"ReadWriteMany"}), "");
  EXPECT_THAT(*FindAllowedModes(ClassAllowing(",")), IsEmpty());
  EXPECT_THAT(FindReasonAgainstModes(ClassAllowing(""), "data", {"ReadWriteOncePod"}),
              HasSubstr("may only have none"));
}

}  // namespace
}  // namespace berth::api
