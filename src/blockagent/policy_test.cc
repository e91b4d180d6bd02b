// The policies of deploy/block-agent, evaluated as kube-apiserver does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/block_kinds.h"
#include "api/kinds/fake_block_writes.h"
#include "base/log.h"
#include "blockagent/fake_rights.h"

namespace berth::blockagent {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using testing::HasSubstr;

class PolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    auto policies = AdmissionPolicies::Read(RightsManifests());
    ASSERT_TRUE(policies.ok()) << base::ToString(policies.status());
    policies_ = *std::move(policies);
  }
  Status Check(const api::BlockWrite& write, Json user) const {
    return policies_.Check({.group = api::kBlockGroup,
                            .resource = write.resource,
                            .subresource = write.subresource,
                            .user = std::move(user),
                            .before = write.before,
                            .after = write.after},
                           [](const std::string& kind) -> std::vector<Json> {
                             EXPECT_EQ(kind, "Node");
                             return api::BlockWriteNodes();
                           });
  }

  AdmissionPolicies policies_;
};

TEST_F(PolicyTest, AnAgentWritesTheEntriesOfItsOwnNodeAlone) {
  for (const api::BlockWrite& write : api::BlockWrites()) {
    const Status checked = Check(write, AgentUser("a"));
    EXPECT_EQ(checked.code(), write.allowed ? StatusCode::kOk : StatusCode::kPermissionDenied)
        << write.resource << ": " << write.what << ": " << base::ToString(checked);
  }
}

TEST_F(PolicyTest, ATokenThatNamesNoNodeWritesNothing) {
  for (const api::BlockWrite& write : api::BlockWrites()) {
    EXPECT_EQ(Check(write, AgentUser("")).code(), StatusCode::kPermissionDenied) << write.what;
  }
}

TEST_F(PolicyTest, OthersAreNotHeldToIt) {
  for (const api::BlockWrite& write : api::BlockWrites()) {
    for (const char* user : {"admin", "system:serviceaccount:berth-block:berth-block-operator",
                             ":berth-block-agent"}) {
      const Status checked = Check(write, {{"username", user}});
      EXPECT_TRUE(checked.ok()) << user << " " << write.what << ": " << checked;
    }
  }
}

// A fence of a volume that pods of many nodes share stays below the costs that kube-apiserver
// allows.
TEST_F(PolicyTest, ALongFenceCanBeJoinedAndLeft) {
  Json others = Json::array();
  for (int i = 0; i < 1000; ++i) {
    others.push_back(api::block_writes::Use("b", fmt::format("uid-{}", i)));
  }
  Json all = others;
  all.push_back(api::block_writes::Use("a"));
  for (const bool join : {true, false}) {
    const Status checked = Check({.what = "",
                                  .resource = "volumefences",
                                  .subresource = "",
                                  .before = api::block_writes::Fence(join ? others : all),
                                  .after = api::block_writes::Fence(join ? all : others),
                                  .allowed = true},
                                 AgentUser("a"));
    EXPECT_TRUE(checked.ok()) << checked;
  }
}

TEST_F(PolicyTest, TheRefusalSaysWhy) {
  const Status refused =
      Check({.what = "",
             .resource = "volumefences",
             .subresource = "",
             .before = api::block_writes::Fence(Json::array({api::block_writes::Use("b")})),
             .after = api::block_writes::Fence(Json::array({api::block_writes::Use("a")})),
             .allowed = false},
            AgentUser("a"));
  EXPECT_THAT(base::ToString(refused), HasSubstr("only if that Node is deleted or has the taint"));
}

}  // namespace
}  // namespace berth::blockagent
