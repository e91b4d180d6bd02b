// That the first cause in the chain is named, and how it is told; and what holds an end.
#include "cli/explain/rules.h"

#include "cli/explain/chain.h"
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::Json;
using base::StatusCode;

TEST_F(RulesTest, NothingIsWrongWhereNothingIs) { EXPECT_EQ(First().id, ""); }

TEST_F(RulesTest, AFinalizerThatNobodyKnowsIsNamedBeforeThoseThatWork) {
  state_.pod.reset();
  state_.subject = "pvc/data";
  state_.claim->Set({"kind"}, "PersistentVolumeClaim");
  state_.claim->Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  state_.claim->add_finalizer("kubernetes.io/pvc-protection");
  state_.claim->add_finalizer("example.com/hold");
  state_.object = *state_.claim;
  const Cause cause = First();
  EXPECT_EQ(cause.id, "finalizer-left");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_NE(cause.summary.find("'example.com/hold'"), std::string::npos);
  state_.claim->remove_finalizer("example.com/hold");
  state_.object = *state_.claim;
  EXPECT_EQ(First().owner, Owner::kController);
}

TEST_F(RulesTest, ASourceThatIsStillCopiedFrom) {
  state_.pod.reset();
  state_.subject = "pvc/data";
  state_.claim->Set({"kind"}, "PersistentVolumeClaim");
  state_.claim->Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  state_.claim->add_finalizer("provisioner.storage.kubernetes.io/cloning-protection");
  state_.object = *state_.claim;
  EXPECT_EQ(First().id, "finalizer-left");
  EXPECT_EQ(First().owner, Owner::kController);
  state_.restoring = {"copy"};
  EXPECT_EQ(First().owner, Owner::kPerson);
  EXPECT_TRUE(Proves(First(), "claims that are to be filled from it: copy"));
}

TEST_F(RulesTest, AVolumeWhoseDeletionTheDriverRefuses) {
  state_.pod.reset();
  state_.claim.reset();
  state_.claim_key.clear();
  state_.volume->Set({"kind"}, "PersistentVolume");
  state_.volume->Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  state_.volume->add_finalizer("external-provisioner.volume.kubernetes.io/finalizer");
  state_.object = *state_.volume;
  EXPECT_EQ(First().id, "finalizer-left");
  Call("delete-volume pv-1", "DeleteVolume", StatusCode::kFailedPrecondition, "it is mounted");
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(RulesTest, AnImageWhoseDeletionTakesLong) {
  state_.pod.reset();
  state_.claim.reset();
  state_.claim_key.clear();
  state_.volume->Set({"kind"}, "PersistentVolume");
  state_.volume->Set({"status", "phase"}, "Released");
  state_.object = *state_.volume;
  state_.events = {api::Event({{"reason", "VolumeDeleting"},
                               {"message", "image 'pv-1' is being deleted: 43 % is done"},
                               {"involvedObject", {{"kind", "PersistentVolume"}}},
                               {"lastTimestamp", "2026-01-01T00:59:30Z"}})};
  EXPECT_EQ(First().id, "image-being-deleted");
  EXPECT_EQ(First().summary, "image 'pv-1' is being deleted: 43 % is done");
  EXPECT_TRUE(First().waiting);
  state_.events[0].Set({"lastTimestamp"}, "2026-01-01T00:55:00Z");
  EXPECT_NE(First().id, "image-being-deleted");
}

TEST_F(RulesTest, OfTwoCausesTheFirstOneIsNamedUntilItIsCured) {
  Unbind();
  Unschedule("0/2 nodes are available: no volume");
  const std::optional<api::StorageClass> fast = state_.storage_class;
  state_.storage_class.reset();
  state_.nodes.pop_back();
  NotReady("False", "ContainerRuntimeNotReady");
  EXPECT_EQ(Ids(), (std::vector<std::string>{"no-class", "no-runtime"}));
  const std::string before = RenderText(ExplainStates({state_}));
  EXPECT_NE(before.find("Cause: storage class 'fast' does not exist"), std::string::npos);
  EXPECT_NE(before.find("Then:  no container runtime answers"), std::string::npos);

  state_.storage_class = fast;
  const std::string after = RenderText(ExplainStates({state_}));
  EXPECT_NE(after.find("Cause: no container runtime answers on node 'node-a'"), std::string::npos);
  EXPECT_EQ(after.find("does not exist"), std::string::npos);
}

TEST_F(RulesTest, TheChainMarksWhatIsDoneWhatBlocksAndWhatWaits) {
  Call(OnNode(), "NodeStageVolume", StatusCode::kInternal, "no such image");
  const Explanation explanation = ExplainStates({state_});
  EXPECT_EQ(explanation.verdict(), "blocked");
  std::string marks;
  for (const Step& step : explanation.ways[0].chain) {
    marks += fmt::format("{}:{} ", NameOf(step.link), static_cast<int>(step.mark));
  }
  EXPECT_EQ(marks, "claim:0 volume:0 node:0 attachment:0 driver:0 stage:2 publish:1 containers:1 ");
  const Json json = RenderJson(explanation);
  EXPECT_EQ(json["cause"]["id"], "driver-error");
  EXPECT_EQ(json["cause"]["owner"], "driver");
  EXPECT_EQ(json["ways"][0]["chain"][5]["mark"], "blocked");
}

TEST_F(RulesTest, TheChainSaysWhoMounts) {
  state_.volume_name = "data";
  const auto event = [](const std::string& reason, const std::string& at, const std::string& text) {
    return api::Event({{"reason", reason}, {"message", text}, {"lastTimestamp", at}});
  };
  const auto says = [this](const std::string& text) {
    return RenderText(ExplainStates({state_})).find(text) != std::string::npos;
  };
  state_.events = {event("HostMount", "2026-01-01T00:50:00Z", "volume 'other' is the host's"),
                   event("HostMount", "2026-01-01T00:50:00Z", "volume 'data' is the host's"),
                   event("RuntimeAssistedMount", "2026-01-01T00:55:00Z",
                         "volume 'data': its xfs is the sandbox's")};
  EXPECT_TRUE(says("; volume 'data': its xfs is the sandbox's"));
  EXPECT_FALSE(says("is the host's"));
  state_.events.pop_back();
  EXPECT_TRUE(says("; volume 'data' is the host's"));
}

TEST_F(RulesTest, TheChainSaysWhyNobodyAskedARuntimeHandler) {
  state_.volume_name = "data";
  const auto says = [this] {
    return RenderText(ExplainStates({state_})).find("the pod has no runtimeClassName") !=
           std::string::npos;
  };
  EXPECT_FALSE(says());
  state_.storage_class->Set({"allowRuntimeAssistedMount"}, true);
  EXPECT_TRUE(says());
  state_.pod->Set({"spec", "runtimeClassName"}, "sandboxed");
  EXPECT_FALSE(says());
}

TEST_F(RulesTest, AmongAPodsVolumesTheEarliestLinkCounts) {
  State other = state_;
  Call(OnNode(), "NodeStageVolume", StatusCode::kInternal, "no such image");
  other.claim.reset();
  other.claim_key = "default/more";
  const Explanation explanation = ExplainStates({state_, other});
  ASSERT_EQ(explanation.causes.size(), 2u);
  EXPECT_EQ(explanation.causes[0].id, "claim-missing");
  EXPECT_EQ(explanation.causes[1].id, "driver-error");
}

TEST_F(RulesTest, EveryCauseSaysWhoseItIsAndWhatToDo) {
  Unbind();
  state_.storage_class.reset();
  NotReady("False", "ContainerRuntimeNotReady");
  Running(OnNode(), "NodeStageVolume");
  for (const Cause& cause : FindCauses(state_)) {
    EXPECT_FALSE(cause.summary.empty()) << cause.id;
    EXPECT_FALSE(cause.proof.empty()) << cause.id;
    EXPECT_FALSE(cause.step.empty()) << cause.id;
    EXPECT_FALSE(NameOf(cause.owner).empty()) << cause.id;
  }
}

}  // namespace
}  // namespace berth::cli::explain
