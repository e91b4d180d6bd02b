// Tests the rules for the way from a bound volume to a node that may use it.
#include "cli/explain/chain.h"
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::Json;
using base::StatusCode;

TEST_F(RulesTest, ADriverThatIsNotOnTheNode) {
  state_.csi_node->Set({"spec", "drivers"}, Json::array());
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_EQ(First().link, Link::kDriver);
  EXPECT_TRUE(Proves(First(), "CSINode 'node-a' lists: none"));
}

TEST_F(RulesTest, AVolumeOfAnotherPlace) {
  state_.volume->Set(
      {"spec", "nodeAffinity", "required"},
      {{"nodeSelectorTerms",
        {{{"matchExpressions", {{{"key", "zone"}, {"operator", "In"}, {"values", {"b"}}}}}}}}});
  Cause cause = First();
  EXPECT_EQ(cause.id, "wrong-topology");
  EXPECT_TRUE(Proves(cause, "nodes that reach the volume: node-b"));
  EXPECT_TRUE(Proves(cause, "nodes that pod/web asks for: node-a"));

  // Not scheduled yet: what the pod selects decides.
  Unschedule("0/2 nodes are available");
  state_.pod->Set({"spec", "nodeSelector"}, {{"zone", "a"}});
  EXPECT_EQ(First().id, "wrong-topology");
  state_.pod->Set({"spec", "nodeSelector"}, {{"zone", "b"}});
  EXPECT_EQ(First().id, "unscheduled");
}

TEST_F(RulesTest, AClassWhoseTopologyNoWantedNodeHas) {
  Unbind();
  Unschedule("0/2 nodes are available");
  state_.pod->Set({"spec", "nodeSelector"}, {{"zone", "a"}});
  state_.storage_class->Set(
      {"allowedTopologies"},
      {{{"matchLabelExpressions", {{{"key", "zone"}, {"values", {"b", "c"}}}}}}});
  EXPECT_EQ(First().id, "wrong-topology");
  state_.pod->Set({"spec", "nodeSelector"}, {{"zone", "b"}});
  EXPECT_NE(First().id, "wrong-topology");
}

TEST_F(RulesTest, AProvisionerThatFindsNoPlaceForAVolume) {
  Unbind();
  for (const char* message :
       {"node 'node-a' is outside the class's allowedTopologies",
        "node 'node-a' lacks a label that driver 'x' names as topology key",
        "no available topology found: driver 'x' is registered on no node",
        "driver 'x' has no topology keys on node 'node-a': it is not registered there (yet)",
        "CSINode 'node-a' is not there"}) {
    state_.events = {api::Event({{"reason", "ProvisioningFailed"},
                                 {"message", message},
                                 {"involvedObject", {{"kind", "PersistentVolumeClaim"}}}})};
    EXPECT_EQ(First().id, "no-topology") << message;
    EXPECT_EQ(First().owner, Owner::kPerson);
    EXPECT_TRUE(Proves(First(), message));
  }
}

TEST_F(RulesTest, ADriverWhoseNodesAreFull) {
  Unschedule("0/2 nodes are available: 2 node(s) exceed max volume count.");
  state_.csi_nodes[0].Set({"spec", "drivers"},
                          Json::array({{{"name", kDriver}, {"allocatable", {{"count", 3}}}}}));
  EXPECT_EQ(First().id, "attach-limit");
  EXPECT_EQ(First().link, Link::kNode);
  EXPECT_TRUE(Proves(First(), "node 'node-a': at most 3 volumes of the driver"));
  Unschedule("0/2 nodes are available: 2 node(s) were unschedulable.");
  EXPECT_EQ(First().id, "unscheduled");
}

TEST_F(RulesTest, ADriverThatAttachesNoMoreToTheNode) {
  state_.attachment->Set(
      {"status"},
      {{"attached", false}, {"attachError", {{"message", "slots are full"}, {"errorCode", 8}}}});
  EXPECT_EQ(First().id, "attach-limit");
  EXPECT_EQ(First().link, Link::kAttachment);
  EXPECT_TRUE(Proves(First(), "slots are full"));
  state_.attachment->Set({"status", "attachError", "errorCode"}, 13);
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(RulesTest, AnUnscheduledPodWhoseClaimAnotherHasForItself) {
  state_.claim->Set({"spec", "accessModes"}, {"ReadWriteOncePod"});
  Unschedule(
      "0/2 nodes are available: node has pod using PersistentVolumeClaim with the same name");
  state_.claim_pods = {
      api::Pod({{"metadata", {{"name", "first"}, {"namespace", "default"}, {"uid", "u1"}}},
                {"spec", {{"nodeName", "node-b"}}},
                {"status", {{"phase", "Running"}}}})};
  EXPECT_EQ(First().id, "in-use-elsewhere");
  EXPECT_TRUE(Proves(First(), "pod 'default/first' is Running on node 'node-b'"));
}

TEST_F(RulesTest, ADriverWhoseRegistrationFailedIsNamedWithItsError) {
  state_.csi_node->Set({"spec", "drivers"}, Json::array());
  const auto event = [](const std::string& reason, const std::string& message) {
    return api::Event({{"reason", reason},
                       {"message", message},
                       {"lastTimestamp", "2026-01-01T00:59:00Z"},
                       {"involvedObject", {{"kind", "Node"}, {"name", "node-a"}}}});
  };
  state_.events = {event("CSIDriverRefused", "register the plugin at '/x': other.example.com")};
  EXPECT_EQ(First().id, "driver-absent") << "another driver's trouble";
  state_.events.push_back(event(
      "CSIDriverRefused", "register the plugin at '/x': driver 'fake.csi.example.com': no disk"));
  EXPECT_EQ(First().id, "driver-refused");
  EXPECT_EQ(First().owner, Owner::kDriver);
  EXPECT_NE(First().summary.find("no disk"), std::string::npos);
  state_.csi_node->Set({"spec", "drivers"}, Json::array({{{"name", kDriver}}}));
  EXPECT_EQ(First().id, "") << "it was registered since";
}

TEST_F(RulesTest, AVolumeThatAnotherNodeUses) {
  state_.attachment.reset();
  state_.attachments = {Attachment("va-2", "node-b", true)};
  api::Pod other({{"metadata", {{"name", "db"}, {"namespace", "default"}, {"uid", "other"}}},
                  {"spec", {{"nodeName", "node-b"}}},
                  {"status", {{"phase", "Running"}}}});
  state_.claim_pods = {*state_.pod, other};
  const Cause cause = First();
  EXPECT_EQ(cause.id, "in-use-elsewhere");
  EXPECT_TRUE(Proves(cause, "VolumeAttachment 'va-2' to node 'node-b': attached"));
  EXPECT_TRUE(Proves(cause, "pod 'default/db' uses it there"));
  EXPECT_EQ(cause.command, "berth delete pod db -n default");
  // One that many nodes may use is no reason.
  state_.volume->Set({"spec", "accessModes"}, {"ReadWriteMany"});
  EXPECT_EQ(First().id, "waits-for-attachment");
}

TEST_F(RulesTest, AnAttachmentThatIsOnItsWayIsNoFault) {
  state_.attachment = Attachment("va-1", "node-a", false);
  EXPECT_EQ(First().id, "waits-for-attachment");
  EXPECT_EQ(ExplainStates({state_}).verdict(), "waiting");
  EXPECT_TRUE(Proves(First(), "no CSIDriver 'fake.csi.example.com' says"));
  // A driver that needs none has none.
  state_.attachment.reset();
  state_.driver_object = api::CsiDriver({{"spec", {{"attachRequired", false}}}});
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, AClaimForOnePodThatAnotherHas) {
  state_.claim->Set({"spec", "accessModes"}, {"ReadWriteOncePod"});
  api::Pod other({{"metadata", {{"name", "db"}, {"namespace", "default"}, {"uid", "other"}}},
                  {"spec", {{"nodeName", "node-a"}}},
                  {"status", {{"phase", "Running"}}}});
  state_.claim_pods = {*state_.pod, other};
  EXPECT_EQ(First().id, "in-use-elsewhere");
  EXPECT_TRUE(Proves(First(), "ReadWriteOncePod; pod 'default/db' is Running"));
}

TEST_F(RulesTest, AttachingThatFailsWithAndWithoutRecords) {
  state_.attachment = Attachment("va-1", "node-a", false);
  state_.attachment->Set({"status", "attachError", "message"},
                         "rpc error: code = NotFound desc = no such node");
  EXPECT_EQ(First().id, "driver-error");
  EXPECT_EQ(First().link, Link::kAttachment);
  Call("attach va-1", "ControllerPublishVolume", StatusCode::kInternal, "no such node");
  EXPECT_TRUE(Proves(First(), "ControllerPublishVolume at /run/fake.sock failed"));
}

TEST_F(RulesTest, AttachingThatIsRefusedBeforeTheDriverIsAsked) {
  struct Row {
    std::string error;
    std::string_view id;
    Owner owner;
  };
  const std::vector<Row> rows = {
      {"CSINode node-a does not contain driver fake.csi.example.com", "driver-absent",
       Owner::kDriver},
      {"csinode.storage.k8s.io \"node-a\" not found", "driver-absent", Owner::kDriver},
      {"rpc error: code = Unavailable desc = connect to '/csi/csi.sock': Connection refused",
       "driver-absent", Owner::kDriver},
      {"read secret 'vault/keys': secrets \"keys\" not found", "secret-missing", Owner::kPerson},
      {"csinodes.storage.k8s.io \"node-a\" is forbidden: User \"sa\" cannot get resource",
       "api-refuses", Owner::kPerson},
      {"PersistentVolume \"pv-1\" is marked for deletion", "volume-deleted", Owner::kPerson},
      {"PersistentVolume 'pv-1': persistentvolumes \"pv-1\" not found", "volume-lost",
       Owner::kPerson},
      {"PersistentVolume 'pv-1' is no CSI volume", "volume-refused", Owner::kPerson},
      {"failed to translate in tree pv to CSI: kind(Dedicated) is not supported in csi migration",
       "volume-refused", Owner::kPerson},
  };
  for (const Row& row : rows) {
    state_.attachment = Attachment("va-1", "node-a", false);
    state_.attachment->Set({"status", "attachError", "message"}, row.error);
    EXPECT_EQ(First().id, row.id) << row.error;
    EXPECT_EQ(First().owner, row.owner) << row.error;
    EXPECT_EQ(First().link, Link::kAttachment);
    EXPECT_TRUE(Proves(First(), "VolumeAttachment 'va-1': status.attachError"));
  }
}

TEST_F(RulesTest, DetachingThatIsRefusedBeforeTheDriverIsAsked) {
  api::VolumeAttachment attachment = Attachment("va-1", "node-a", true);
  attachment.Set({"kind"}, "VolumeAttachment");
  attachment.Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  attachment.Set({"status", "detachError", "message"}, "read secret 'vault/keys': not found");
  state_.attachment = attachment;
  state_.object = attachment;
  state_.subject = "volumeattachment/va-1";
  EXPECT_EQ(First().id, "secret-missing");
  EXPECT_EQ(First().link, Link::kDeletion);
}

TEST_F(RulesTest, NoRuntimeBeforeAndAfterScheduling) {
  NotReady("False", "ContainerRuntimeNotReady");
  EXPECT_EQ(First().id, "no-runtime");
  EXPECT_EQ(First().link, Link::kContainers);
  Unschedule("0/2 nodes are available: 2 node(s) were not ready");
  EXPECT_EQ(First().id, "unscheduled");  // node-b has a runtime: something else is wrong
  state_.nodes.pop_back();
  EXPECT_EQ(First().id, "no-runtime");
  EXPECT_EQ(First().link, Link::kNode);
}

TEST_F(RulesTest, ANodeThatIsSilentOrGone) {
  NotReady("Unknown", "NodeStatusUnknown");
  EXPECT_EQ(First().id, "node-gone");
  EXPECT_NE(First().command.find("out-of-service"), std::string::npos);
  state_.node.reset();
  EXPECT_EQ(First().summary, "node 'node-a' does not exist");
}

TEST_F(RulesTest, AVolumeWhoseOnlyNodeIsSilent) {
  const Json expression = {{"key", "zone"}, {"operator", "In"}, {"values", {"b"}}};
  state_.volume->Set(
      {"spec", "nodeAffinity", "required"},
      {{"nodeSelectorTerms", Json::array({{{"matchExpressions", Json::array({expression})}}})}});
  Unschedule("0/2 nodes are available");
  EXPECT_EQ(First().id, "unscheduled");
  for (api::Node& node : state_.nodes) {
    if (node.name() != "node-b") continue;
    node.Set({"status", "conditions"}, Json::array({{{"type", "Ready"}, {"status", "Unknown"}}}));
  }
  const Cause cause = First();
  EXPECT_EQ(cause.id, "volumes-node-gone");
  EXPECT_NE(cause.summary.find("only on node-b"), std::string::npos) << cause.summary;

  // Not made yet: the node was chosen already.
  Unbind();
  EXPECT_NE(First().id, "volumes-node-gone");
  state_.claim->set_annotation("volume.kubernetes.io/selected-node", "node-b");
  EXPECT_EQ(First().id, "volumes-node-gone");
}

}  // namespace
}  // namespace berth::cli::explain
