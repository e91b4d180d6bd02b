#include "api/version_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

namespace berth::api {
namespace {

TEST(VersionOrderTest, StableComesBeforeBetaBeforeAlphaBeforeOtherNames) {
  std::vector<std::string> versions = {"foo10", "v1alpha1", "v12alpha1", "v3beta1", "v10",
                                       "v2",    "v11beta2", "v10beta3",  "foo1",    "v1",
                                       "v01",   "v1beta",   "v11alpha2"};
  std::sort(versions.begin(), versions.end(), IsPreferredVersion);
  EXPECT_THAT(versions, testing::ElementsAre("v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1",
                                             "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10",
                                             "v01", "v1beta"));
}

}  // namespace
}  // namespace berth::api
