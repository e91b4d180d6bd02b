#include "standalone/api_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/fake_client.h"

namespace berth::standalone {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ApiAccessTest, TheNodeAgentHasTheRightsOfItsNodeAlone) {
  std::vector<std::pair<std::string, std::vector<std::string>>> asked;
  const auto access = ApiAccess::New(
      [&](const std::string& user,
          const std::vector<std::string>& groups) -> base::StatusOr<std::unique_ptr<kube::Client>> {
        asked.emplace_back(user, groups);
        return std::make_unique<kube::FakeClient>();
      },
      "n1", base::SystemClock());
  ASSERT_TRUE(access.ok()) << base::ToString(access.status());
  EXPECT_THAT(asked, ElementsAre(Pair("", ElementsAre()),
                                 Pair("system:node:n1", ElementsAre("system:nodes"))));
  EXPECT_NE((*access)->client, (*access)->node_client);
}

TEST(ApiAccessTest, WithoutAClientThereIsNoAccess) {
  const auto access = ApiAccess::New(
      [](const std::string& user,
         const std::vector<std::string>&) -> base::StatusOr<std::unique_ptr<kube::Client>> {
        if (user.empty()) return std::make_unique<kube::FakeClient>();
        return base::Error(base::StatusCode::kPermissionDenied, "no impersonation");
      },
      "n1", base::SystemClock());
  EXPECT_EQ(access.status().code(), base::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace berth::standalone
