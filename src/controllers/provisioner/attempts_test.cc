#include "controllers/provisioner/attempts.h"

#include <gmock/gmock.h>

#include <vector>

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AttemptsTest : public ::testing::Test {
 protected:
  using Claim = api::PersistentVolumeClaim;

  static Claim Held() {
    Claim claim(MakeClaim("data"));
    claim.add_finalizer(kProvisioningFinalizer);
    return claim;
  }
  static Attempt Unknown() {
    Attempt attempt;
    attempt.earlier = Earlier::kSameCall;
    return attempt;
  }
  Attempts::Wake Waker() {
    return {.claim = [this](const std::string& key) { woken_.push_back(key); }, .record = [] {}};
  }

  kube::FakeClient client_;
  const Options options_;
  std::vector<std::string> woken_;
  Attempts attempts_{client_, options_, Waker()};
};

TEST_F(AttemptsTest, AFinalizerWithoutAnAttemptIsOfAnOlderVersion) {
  EXPECT_EQ(attempts_.FindEarlier(Claim(MakeClaim("data"))), Earlier::kNone);
  EXPECT_EQ(attempts_.FindEarlier(Held()), Earlier::kInherited);
  EXPECT_TRUE(attempts_.MayHaveVolume(Held()));
  attempts_.Record("uid-data", {});
  EXPECT_EQ(attempts_.FindEarlier(Held()), Earlier::kNone);
  EXPECT_FALSE(attempts_.MayHaveVolume(Held()));
}

TEST_F(AttemptsTest, AFinalizerWithoutANodeIsThatNodesWhichRemembersIt) {
  Options options;
  options.node_deployment.node_name = "node-a";
  Attempts of_node(client_, options, Waker());
  EXPECT_FALSE(of_node.MayHaveVolume(Held()));
  Claim placed = Held();
  placed.set_annotation(kSelectedNode, "node-a");
  EXPECT_TRUE(of_node.MayHaveVolume(placed));
  of_node.Record("uid-data", Unknown());
  EXPECT_TRUE(of_node.MayHaveVolume(Held()));
}

TEST_F(AttemptsTest, AClaimThatIsGoneWithAnUnknownOutcomeStaysUntilItIsSettled) {
  const Claim claim(MakeClaim("data"));
  attempts_.Record("uid-data", Unknown());
  attempts_.KeepLostClaim(claim, /*has_volume=*/false);
  const auto lost = attempts_.FindLostClaim("default/data");
  ASSERT_NE(lost, nullptr);
  EXPECT_TRUE(lost->deleting());
  EXPECT_THAT(woken_, ElementsAre("default/data"));
  attempts_.KeepLostClaim(claim, /*has_volume=*/false);
  EXPECT_THAT(woken_, ElementsAre("default/data")) << "once is enough";

  attempts_.SettleClaim(*lost);
  EXPECT_EQ(attempts_.FindLostClaim("default/data"), nullptr);
  EXPECT_THAT(woken_, ElementsAre("default/data", "default/data")) << "another of its name waits";
}

TEST_F(AttemptsTest, ANodeThatWasGivenUpKeepsTheAttemptOpen) {
  Attempt attempt;
  attempt.given_up = std::make_shared<const Plan>();
  attempts_.Record("uid-data", attempt);
  const Claim claim(MakeClaim("data"));
  EXPECT_EQ(attempts_.FindEarlier(claim), Earlier::kNone);
  EXPECT_TRUE(attempts_.MayHaveVolume(claim));
  attempts_.KeepLostClaim(claim, /*has_volume=*/false);
  EXPECT_NE(attempts_.FindLostClaim("default/data"), nullptr);
}

TEST_F(AttemptsTest, AClaimThatIsGoneWithAKnownOutcomeIsForgotten) {
  const Claim claim(MakeClaim("data"));
  attempts_.Record("uid-data", {});
  attempts_.KeepLostClaim(claim, /*has_volume=*/false);
  attempts_.Record("uid-data", Unknown());
  attempts_.KeepLostClaim(claim, /*has_volume=*/true);
  EXPECT_EQ(attempts_.FindLostClaim("default/data"), nullptr);
  EXPECT_FALSE(attempts_.FindLast("uid-data").has_value());
  EXPECT_THAT(woken_, IsEmpty());
}

}  // namespace
}  // namespace berth::controllers::provisioner
