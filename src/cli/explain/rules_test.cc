// Each cause, from a gathered state; and that the first one in the chain is named.
#include "cli/explain/rules.h"

#include <gtest/gtest.h>

#include "api/csi_names.h"
#include "api/time.h"
#include "cli/explain/chain.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::FlightRecord;
using base::Json;
using base::StatusCode;
using std::chrono::seconds;

constexpr std::string_view kDriver = "fake.csi.example.com";
constexpr std::string_view kSocket = "/run/fake.sock";

// A pod "web" on node-a with claim "data", bound to pv-1 and attached, and its driver there: each
// test breaks one link or two.
class RulesTest : public testing::Test {
 protected:
  RulesTest() {
    const auto now = api::ParseTime("2026-01-01T01:00:00Z");
    state_.now = *now;
    state_.subject = "pod/web";
    state_.pod =
        api::Pod({{"kind", "Pod"},
                  {"metadata", {{"name", "web"}, {"namespace", "default"}, {"uid", "pod-uid"}}},
                  {"spec", {{"nodeName", "node-a"}}},
                  {"status", {{"phase", "Pending"}}}});
    state_.object = *state_.pod;
    state_.claim_key = "default/data";
    state_.claim = api::PersistentVolumeClaim(
        {{"metadata", {{"name", "data"}, {"namespace", "default"}, {"uid", "claim-uid"}}},
         {"spec",
          {{"storageClassName", "fast"},
           {"volumeName", "pv-1"},
           {"accessModes", {"ReadWriteOnce"}},
           {"resources", {{"requests", {{"storage", "1Gi"}}}}}}},
         {"status", {{"phase", "Bound"}}}});
    state_.class_name = "fast";
    state_.storage_class =
        api::StorageClass({{"metadata", {{"name", "fast"}}}, {"provisioner", kDriver}});
    state_.classes = {*state_.storage_class};
    state_.volume =
        api::PersistentVolume({{"metadata", {{"name", "pv-1"}}},
                               {"spec",
                                {{"accessModes", {"ReadWriteOnce"}},
                                 {"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}}}}},
                               {"status", {{"phase", "Bound"}}}});
    state_.driver = kDriver;
    state_.handle = "vol-1";
    state_.node_name = "node-a";
    state_.nodes = {Node("node-a", "a"), Node("node-b", "b")};
    state_.node = state_.nodes[0];
    state_.csi_node =
        api::CsiNode({{"metadata", {{"name", "node-a"}}},
                      {"spec", {{"drivers", {{{"name", kDriver}, {"nodeID", "node-a"}}}}}}});
    state_.csi_nodes = {*state_.csi_node};
    state_.attachment = Attachment("va-1", "node-a", true);
    state_.attachments = {*state_.attachment};
  }

  static api::Node Node(const std::string& name, const std::string& zone) {
    return api::Node({{"metadata", {{"name", name}, {"labels", {{"zone", zone}}}}},
                      {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  }
  static api::VolumeAttachment Attachment(const std::string& name, const std::string& node,
                                          bool attached) {
    return api::VolumeAttachment(
        {{"metadata", {{"name", name}}},
         {"spec", {{"nodeName", node}, {"source", {{"persistentVolumeName", "pv-1"}}}}},
         {"status", {{"attached", attached}}}});
  }

  // The claim waits for a volume still.
  void Unbind() {
    state_.claim->Set({"status", "phase"}, "Pending");
    state_.claim->Set({"spec", "volumeName"}, "");
    state_.volume.reset();
    state_.handle.clear();
    state_.attachment.reset();
    state_.attachments.clear();
  }
  void Unschedule(const std::string& message) {
    state_.node_name.clear();
    state_.node.reset();
    state_.csi_node.reset();
    state_.pod->Set({"spec", "nodeName"}, "");
    state_.pod->Set({"status", "conditions"},
                    {{{"type", "PodScheduled"}, {"status", "False"}, {"message", message}}});
    state_.object = *state_.pod;
  }
  void NotReady(const std::string& status, const std::string& reason) {
    state_.nodes[0].Set(
        {"status", "conditions"},
        {{{"type", "Ready"}, {"status", status}, {"reason", reason}, {"message", "as it says"}}});
    if (state_.node) state_.node = state_.nodes[0];
  }

  FlightRecord& Call(const std::string& key, const std::string& what, StatusCode code,
                     const std::string& message) {
    if (state_.logs.empty()) state_.logs.push_back({.role = "node", .pid = 1, .alive = true});
    state_.logs[0].records.push_back({.key = key,
                                      .kind = FlightKind::kCall,
                                      .what = what,
                                      .target = std::string(kSocket),
                                      .first = state_.now - seconds(60),
                                      .start = state_.now - seconds(31),
                                      .end = state_.now - seconds(30),
                                      .code = code,
                                      .message = message});
    return state_.logs[0].records.back();
  }
  FlightRecord& Running(const std::string& key, const std::string& what) {
    FlightRecord& record = Call(key, what, StatusCode::kOk, "");
    record.running = true;
    return record;
  }
  static platform::ProcessInfo Process(pid_t pid, char state, const std::string& channel) {
    return {.pid = pid, .name = "mount", .state = state, .wait_channel = channel};
  }
  static std::string OnNode() { return "volumes " + api::UniqueVolumeName(kDriver, "vol-1"); }

  // The first cause, or one with id "".
  Cause First() const {
    const std::vector<Cause> causes = CausesOf(state_);
    return causes.empty() ? Cause{.id = ""} : causes.front();
  }
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const Cause& cause : CausesOf(state_)) ids.emplace_back(cause.id);
    return ids;
  }
  static bool Proves(const Cause& cause, std::string_view text) {
    for (const std::string& proof : cause.proof) {
      if (proof.find(text) != std::string::npos) return true;
    }
    return false;
  }

  State state_;
};

TEST_F(RulesTest, NothingIsWrongWhereNothingIs) { EXPECT_EQ(First().id, ""); }

TEST_F(RulesTest, AClaimThatDoesNotExist) {
  state_.claim.reset();
  EXPECT_EQ(First().id, "claim-missing");
  EXPECT_EQ(First().link, Link::kClaim);
}

TEST_F(RulesTest, AClassThatDoesNotExistIsNamedWithThoseThatDo) {
  Unbind();
  state_.class_name = "gone";
  state_.storage_class.reset();
  const Cause cause = First();
  EXPECT_EQ(cause.id, "no-class");
  EXPECT_EQ(cause.summary, "storage class 'gone' does not exist");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_TRUE(Proves(cause, "classes that exist: fast"));
  EXPECT_FALSE(cause.command.empty());
}

TEST_F(RulesTest, NoClassAndNoDefaultOne) {
  Unbind();
  state_.class_name.clear();
  state_.storage_class.reset();
  EXPECT_EQ(First().id, "no-class");
  EXPECT_NE(First().command.find("annotate storageclass fast"), std::string::npos);
}

TEST_F(RulesTest, ADataSourceThatIsMissingOrNotReady) {
  Unbind();
  state_.claim->Set(
      {"spec", "dataSource"},
      {{"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "snap"}});
  Cause cause = First();
  EXPECT_EQ(cause.id, "source-missing");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_NE(cause.summary.find("VolumeSnapshot 'default/snap'"), std::string::npos);

  api::Object snapshot(
      {{"kind", "VolumeSnapshot"}, {"metadata", {{"name", "snap"}, {"namespace", "default"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_TRUE(cause.waiting);
  EXPECT_TRUE(Proves(cause, "no VolumeSnapshotContent"));

  snapshot.Set({"status"}, {{"boundVolumeSnapshotContentName", "content"},
                            {"error", {{"message", "pool is full"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_EQ(cause.owner, Owner::kDriver);
  EXPECT_TRUE(Proves(cause, "pool is full"));

  snapshot.Set({"status", "readyToUse"}, true);
  state_.data_source = snapshot;
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, ACopyOfAClaimThatHasNoVolume) {
  Unbind();
  state_.claim->Set({"spec", "dataSource"},
                    {{"kind", "PersistentVolumeClaim"}, {"name", "source"}});
  EXPECT_EQ(First().id, "source-missing");
  api::Object source({{"kind", "PersistentVolumeClaim"},
                      {"metadata", {{"name", "source"}, {"namespace", "default"}}},
                      {"status", {{"phase", "Pending"}}}});
  state_.data_source = source;
  const Cause cause = First();
  EXPECT_EQ(cause.id, "source-not-bound");
  EXPECT_EQ(cause.command, "berth explain pvc source -n default");
  source.Set({"status", "phase"}, "Bound");
  state_.data_source = source;
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, NobodyFillsVolumesFromTheKind) {
  Unbind();
  state_.claim->Set({"spec", "dataSourceRef"},
                    {{"apiGroup", "example.com"}, {"kind", "Hello"}, {"name", "h"}});
  state_.populators = {"Other.example.com"};
  const Cause cause = First();
  EXPECT_EQ(cause.id, "populator-absent");
  EXPECT_TRUE(Proves(cause, "Hello 'default/h' of group 'example.com'"));
  EXPECT_TRUE(Proves(cause, "are for Other.example.com"));
  state_.populators.emplace_back("Hello.example.com");
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, WhatTheClassNamesIsMissingOrUnknown) {
  Unbind();
  const auto failed = [&](const std::string& message) {
    state_.events = {api::Event({{"reason", "ProvisioningFailed"},
                                 {"message", message},
                                 {"involvedObject", {{"kind", "PersistentVolumeClaim"}}}})};
  };
  failed("rpc error: code = NotFound desc = read secret 'default/creds': not found");
  Cause cause = First();
  EXPECT_EQ(cause.id, "secret-missing");
  EXPECT_TRUE(Proves(cause, "default/creds"));
  failed("unknown class parameter 'csi.storage.k8s.io/no-such-thing'");
  cause = First();
  EXPECT_EQ(cause.id, "class-parameter");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  // Once the driver is asked, what it says counts.
  Call("provision default/data", "CreateVolume", StatusCode::kInternal, "no");
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(RulesTest, EveryNodeIsFull) {
  Unbind();
  Unschedule("0/2 nodes are available: 2 node(s) did not have enough free storage.");
  Call("provision default/data", "CreateVolume", StatusCode::kResourceExhausted, "pool is full");
  const Cause cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_EQ(cause.summary, "no node has 1Gi free for claim 'default/data'");
}

TEST_F(RulesTest, NoCapacityByTheDriverAndByTheScheduler) {
  Unbind();
  Call("provision default/data", "CreateVolume", StatusCode::kResourceExhausted, "pool is full")
      .count = 4;
  Cause cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_TRUE(
      Proves(cause, "failed 4 times in 60s, last 30s ago: RESOURCE_EXHAUSTED: pool is full"))
      << fmt::format("{}", fmt::join(cause.proof, "\n"));
  EXPECT_TRUE(Proves(cause, "asks for 1Gi"));

  state_.logs.clear();
  Unschedule("0/2 nodes are available: 2 node(s) did not have enough free storage.");
  cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_TRUE(Proves(cause, "scheduler: 0/2"));
}

TEST_F(RulesTest, AClaimThatCannotGrowIsExplainedItsPodIsNotBlamed) {
  Call("resize default/data", "ControllerExpandVolume", StatusCode::kOutOfRange, "pool is full");
  EXPECT_EQ(First().id, "");
  state_.pod.reset();
  state_.object = *state_.claim;
  state_.object.Set({"kind"}, "PersistentVolumeClaim");
  EXPECT_EQ(First().id, "no-capacity");
  EXPECT_TRUE(Proves(First(), "ControllerExpandVolume"));
}

TEST_F(RulesTest, ADriverThatIsNowhere) {
  Unbind();
  state_.csi_nodes[0].Set({"spec", "drivers"}, Json::array());
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_EQ(First().link, Link::kVolume);
  EXPECT_TRUE(Proves(First(), "no node's CSINode lists the driver"));
}

TEST_F(RulesTest, ADriverThatIsNotOnTheNode) {
  state_.csi_node->Set({"spec", "drivers"}, Json::array());
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_EQ(First().link, Link::kDriver);
  EXPECT_TRUE(Proves(First(), "CSINode 'node-a' lists: none"));
}

TEST_F(RulesTest, ADriverWhoseSocketNobodyServes) {
  Call(OnNode(), "NodeStageVolume", StatusCode::kUnavailable, "connect: refused");
  state_.servers[std::string(kSocket)] = {
      .listening = base::Error(StatusCode::kUnavailable, "nobody listens on '{}'", kSocket)};
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_TRUE(Proves(First(), "nobody listens on '/run/fake.sock'"));
}

TEST_F(RulesTest, ADriverThatHangsIsNamedWithItsProcess) {
  Running(OnNode(), "NodeStageVolume");
  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'S', "ep_poll")}};
  Cause cause = First();
  EXPECT_EQ(cause.id, "driver-hung");
  EXPECT_EQ(cause.link, Link::kStage);
  EXPECT_EQ(cause.owner, Owner::kDriver);
  EXPECT_TRUE(Proves(cause, "NodeStageVolume at /run/fake.sock has run for 31s"));
  EXPECT_TRUE(Proves(cause, "process 42 'mount' waits in 'ep_poll' (state S)"));

  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'T', "")}};
  EXPECT_EQ(First().command, "kill -CONT 42");
}

TEST_F(RulesTest, ADriverThatTakesConnectionsAndSaysNothingHangs) {
  Call(OnNode(), "NodeGetCapabilities", StatusCode::kUnavailable, "failed to connect");
  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'S', "ep_poll")}};
  EXPECT_EQ(First().id, "driver-error");
  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'T', "")}};
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_EQ(First().command, "kill -CONT 42");
}

TEST_F(RulesTest, ACallThatHasJustBegunIsNoHang) {
  Running(OnNode(), "NodeStageVolume").start = state_.now - seconds(1);
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, ACallThatIsRepeatedAfterItsDeadlineHangsToo) {
  Call(OnNode(), "NodePublishVolume", StatusCode::kDeadlineExceeded, "no answer");
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_EQ(First().link, Link::kPublish);
}

TEST_F(RulesTest, ADriverThatAnswersAnErrorIsQuoted) {
  Call(OnNode(), "NodeStageVolume", StatusCode::kInternal, "no such image");
  const Cause cause = First();
  EXPECT_EQ(cause.id, "driver-error");
  EXPECT_NE(cause.summary.find("no such image"), std::string::npos);
  EXPECT_TRUE(Proves(cause, "INTERNAL: no such image"));
  FlightRecord& retry = Call(OnNode(), "retry", StatusCode::kInternal, "no such image");
  retry.kind = FlightKind::kRetry;
  retry.end = state_.now + seconds(8);
  EXPECT_TRUE(Proves(First(), "in its queue: tried again in 8s"));
  state_.logs[0].records.pop_back();
  // Cured: the same call succeeds later.
  Call(OnNode(), "NodeStageVolume", StatusCode::kOk, "");
  EXPECT_EQ(First().id, "");
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

TEST_F(RulesTest, AVolumeThatItsDriverCallsAbnormal) {
  state_.volume_name = "data";
  const auto event = [](const std::string& reason, const std::string& at) {
    return api::Event({{"reason", reason},
                       {"message", "Volume data: a disk fails"},
                       {"lastTimestamp", at},
                       {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}});
  };
  state_.events = {event("VolumeConditionAbnormal", "2026-01-01T00:50:00Z")};
  EXPECT_EQ(First().id, "volume-abnormal");
  EXPECT_TRUE(Proves(First(), "its driver said so 10m ago"));
  state_.events.push_back(event("VolumeConditionNormal", "2026-01-01T00:55:00Z"));
  EXPECT_EQ(First().id, "");
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
      {"read secret 'vault/keys': secrets \"keys\" not found", "secret-missing", Owner::kPerson},
      {"PersistentVolume \"pv-1\" is marked for deletion", "volume-deleted", Owner::kPerson},
      {"PersistentVolume 'pv-1': persistentvolumes \"pv-1\" not found", "volume-lost",
       Owner::kPerson},
      {"PersistentVolume 'pv-1' is no CSI volume; those of in-tree plugins are not translated",
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

TEST_F(RulesTest, AnImageThatCannotBeHad) {
  state_.pod->Set(
      {"status", "containerStatuses"},
      {{{"name", "main"},
        {"image", "nowhere/nothing:1"},
        {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "not found"}}}}}}});
  const Cause cause = First();
  EXPECT_EQ(cause.id, "image-missing");
  EXPECT_EQ(cause.link, Link::kContainers);
  EXPECT_TRUE(Proves(cause, "ImagePullBackOff: not found"));
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

TEST_F(RulesTest, AMountThatHangsInTheKernelIsToldFromADriverThatHangs) {
  Running(OnNode(), "NodeStageVolume");
  state_.servers[std::string(kSocket)] = {
      .processes = {Process(42, 'S', "ep_poll"), Process(43, 'D', "folio_wait_bit")}};
  Cause cause = First();
  EXPECT_EQ(cause.id, "mount-hung");
  EXPECT_EQ(cause.owner, Owner::kKernel);
  EXPECT_TRUE(Proves(cause, "process 43 'mount' waits in 'folio_wait_bit' (state D)"));

  // The driver's own record says that this volume has no such process: the other one's is not ours.
  Running("volume vol-1", "NodeStageVolume");
  EXPECT_EQ(First().id, "driver-hung");
  FlightRecord& child = Running("volume vol-1", "mount");
  child.kind = FlightKind::kProcess;
  child.pid = 43;
  state_.processes[43] = Process(43, 'D', "folio_wait_bit");
  EXPECT_EQ(First().id, "mount-hung");
}

TEST_F(RulesTest, AChildOfTheNodeAgentThatHangs) {
  FlightRecord& child = Running(OnNode(), "berth");
  child.kind = FlightKind::kProcess;
  child.target = "unmount '/x'";
  child.pid = 44;
  EXPECT_EQ(First().id, "");
  state_.processes[44] = Process(44, 'S', "request_wait_answer");
  EXPECT_EQ(First().id, "mount-hung");
  EXPECT_EQ(First().summary, "'unmount '/x'' hangs: process 44 stands still in the kernel");
}

TEST_F(RulesTest, WorkThatFailsWithoutACallIsTold) {
  FlightRecord& retry = Call(OnNode(), "retry", StatusCode::kInternal, "write the record: full");
  retry.kind = FlightKind::kRetry;
  retry.end = state_.now + seconds(8);
  EXPECT_EQ(First().id, "node-error");
  EXPECT_EQ(First().owner, Owner::kNodeAgent);
  EXPECT_TRUE(Proves(First(), "again in 8s"));
}

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
    marks += fmt::format("{}:{} ", Name(step.link), static_cast<int>(step.mark));
  }
  EXPECT_EQ(marks, "claim:0 volume:0 node:0 attachment:0 driver:0 stage:2 publish:1 containers:1 ");
  const Json json = RenderJson(explanation);
  EXPECT_EQ(json["cause"]["id"], "driver-error");
  EXPECT_EQ(json["cause"]["owner"], "driver");
  EXPECT_EQ(json["ways"][0]["chain"][5]["mark"], "blocked");
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
  for (const Cause& cause : CausesOf(state_)) {
    EXPECT_FALSE(cause.summary.empty()) << cause.id;
    EXPECT_FALSE(cause.proof.empty()) << cause.id;
    EXPECT_FALSE(cause.step.empty()) << cause.id;
    EXPECT_FALSE(Name(cause.owner).empty()) << cause.id;
  }
}

}  // namespace
}  // namespace berth::cli::explain
