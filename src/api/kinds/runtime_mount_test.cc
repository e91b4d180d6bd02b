#include "api/kinds/runtime_mount.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

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

}  // namespace
}  // namespace berth::api
