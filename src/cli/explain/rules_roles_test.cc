// Whose turn it is, whether it has a leader, and what the API refuses it.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::StatusCode;
using std::chrono::seconds;

// A turn of each role: the healthy state made to wait for it.
struct Turn {
  std::string role;
  std::string lease;
  std::string key;
  Link link;
};

class RolesRulesTest : public RulesTest {
 protected:
  // The claim alone, as its owner asks about it.
  void AskAboutClaim() {
    state_.pod.reset();
    state_.node_name.clear();
    state_.attachment.reset();
    state_.attachments.clear();
    state_.claim->Set({"kind"}, "PersistentVolumeClaim");
    state_.object = *state_.claim;
    state_.subject = "pvc/data";
  }
  void AskAboutSnapshot() {
    AskAboutClaim();
    state_.snapshot = api::VolumeSnapshot(
        {{"kind", "VolumeSnapshot"},
         {"metadata", {{"name", "monday"}, {"namespace", "default"}, {"uid", "uid-1"}}},
         {"spec",
          {{"volumeSnapshotClassName", "snap"},
           {"source", {{"persistentVolumeClaimName", "data"}}}}}});
    state_.snapshot_class =
        api::VolumeSnapshotClass({{"metadata", {{"name", "snap"}}}, {"driver", kDriver}});
    state_.snapshot_classes = {*state_.snapshot_class};
    state_.object = *state_.snapshot;
    state_.subject = "volumesnapshot/monday";
  }

  Turn Provision() {
    AskAboutClaim();
    Unbind();
    return {"provisioner", "fake-csi-example-com", "provision default/data", Link::kVolume};
  }
  Turn Delete() {
    AskAboutClaim();
    state_.claim.reset();
    state_.claim_key.clear();
    state_.volume->Set({"kind"}, "PersistentVolume");
    state_.volume->Set({"status", "phase"}, "Released");
    state_.volume->Set({"spec", "persistentVolumeReclaimPolicy"}, "Delete");
    state_.object = *state_.volume;
    state_.subject = "pv/pv-1";
    return {"provisioner", "fake-csi-example-com", "delete-volume pv-1", Link::kDeletion};
  }
  Turn Attach() {
    AskAboutClaim();
    state_.node_name = "node-a";
    state_.attachment = Attachment("va-1", "node-a", false);
    state_.attachment->Set({"kind"}, "VolumeAttachment");
    state_.attachment->Set({"spec", "attacher"}, kDriver);
    state_.attachments = {*state_.attachment};
    state_.object = *state_.attachment;
    state_.subject = "volumeattachment/va-1";
    return {"attacher", "external-attacher-leader-fake-csi-example-com", "attach va-1",
            Link::kAttachment};
  }
  Turn Detach() {
    Turn turn = Attach();
    state_.attachment->Set({"status", "attached"}, true);
    state_.attachment->Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
    state_.object = *state_.attachment;
    turn.link = Link::kDeletion;
    return turn;
  }
  Turn Resize() {
    AskAboutClaim();
    state_.claim->Set({"status", "capacity", "storage"}, "512Mi");
    state_.object = *state_.claim;
    return {"resizer", "external-resizer-fake-csi-example-com", "resize default/data",
            Link::kVolume};
  }
  Turn Modify() {
    AskAboutClaim();
    state_.claim->Set({"status", "capacity", "storage"}, "1Gi");
    state_.claim->Set({"spec", "volumeAttributesClassName"}, "gold");
    state_.object = *state_.claim;
    return {"resizer", "external-resizer-fake-csi-example-com", "modify default/data",
            Link::kVolume};
  }
  Turn MakeContent() {
    AskAboutSnapshot();
    return {"snapshot-controller", "snapshot-controller-leader", "snapshots default/monday",
            Link::kSnapshot};
  }
  Turn TakeSnapshot() {
    AskAboutSnapshot();
    state_.content = api::VolumeSnapshotContent({{"metadata", {{"name", "snapcontent-uid-1"}}},
                                                 {"spec",
                                                  {{"driver", kDriver},
                                                   {"deletionPolicy", "Delete"},
                                                   {"source", {{"volumeHandle", "vol-1"}}}}}});
    return {"snapshotter", "external-snapshotter-leader-fake-csi-example-com",
            "snapshot snapcontent-uid-1", Link::kSnapshot};
  }

  void Lease(const std::string& name, const std::string& holder, int renewed_seconds_ago) {
    state_.leases = {api::Lease(
        {{"metadata", {{"name", name}, {"namespace", "storage"}}},
         {"spec",
          {{"holderIdentity", holder},
           {"leaseDurationSeconds", 15},
           {"renewTime", api::FormatMicroTime(state_.now - seconds(renewed_seconds_ago))}}}})};
  }

  static constexpr Turn (RolesRulesTest::* kTurns[])() = {
      &RolesRulesTest::Provision,   &RolesRulesTest::Delete,      &RolesRulesTest::Attach,
      &RolesRulesTest::Detach,      &RolesRulesTest::Resize,      &RolesRulesTest::Modify,
      &RolesRulesTest::MakeContent, &RolesRulesTest::TakeSnapshot};
  const State healthy_ = state_;
};

TEST_F(RolesRulesTest, WhoseTurnItIsAndWhoLeads) {
  for (const auto make : kTurns) {
    state_ = healthy_;
    const Turn turn = (this->*make)();
    EXPECT_EQ(First().id, "waits-for-role") << turn.key;
    EXPECT_TRUE(First().waiting);
    EXPECT_EQ(First().link, turn.link) << turn.key;
    EXPECT_NE(First().summary.find("the " + turn.role), std::string::npos) << First().summary;
    EXPECT_TRUE(Proves(First(), "no namespace has a lease '" + turn.lease + "'")) << turn.key;
    // Another process's leader is named, for its log says more.
    Lease(turn.lease, "pod-b", 3);
    EXPECT_EQ(First().id, "waits-for-role") << turn.key;
    EXPECT_TRUE(Proves(First(), "lease 'storage/" + turn.lease + "' is held by 'pod-b'"));
    // It is at it.
    Running(turn.key, "TheCall").start = state_.now - seconds(1);
    EXPECT_NE(First().id, "waits-for-role") << turn.key;
  }
}

TEST_F(RolesRulesTest, ARoleWithoutALeader) {
  for (const auto make : kTurns) {
    state_ = healthy_;
    const Turn turn = (this->*make)();
    Lease(turn.lease, "pod-b", 60);
    EXPECT_EQ(First().id, "no-leader") << turn.key;
    EXPECT_EQ(First().link, turn.link) << turn.key;
    EXPECT_FALSE(First().waiting);
    EXPECT_TRUE(Proves(First(), "held by 'pod-b', renewed 60s ago"));
    Lease(turn.lease, "", 60);
    EXPECT_TRUE(Proves(First(), "nobody holds lease 'storage/" + turn.lease + "'"));
    // The next one may be about to lead.
    Lease(turn.lease, "pod-b", 20);
    EXPECT_EQ(First().id, "no-leader");
    EXPECT_TRUE(First().waiting);
    // Another driver's is none of its business.
    Lease("other-" + turn.lease, "", 60);
    EXPECT_EQ(First().id, "waits-for-role");
  }
}

TEST_F(RolesRulesTest, ARoleThatASignalHasStopped) {
  for (const auto make : kTurns) {
    state_ = healthy_;
    const Turn turn = (this->*make)();
    state_.stopped_roles = {
        {.process = Process(4711, 'T', ""),
         .roles = {"another", turn.role},
         .sockets = {"/var/lib/kubelet/plugins/fake.csi.example.com/csi.sock"}}};
    EXPECT_EQ(First().id, "role-stopped") << turn.key;
    EXPECT_EQ(First().link, turn.link) << turn.key;
    EXPECT_FALSE(First().waiting);
    EXPECT_EQ(First().owner, Owner::kController);
    EXPECT_TRUE(Proves(First(), "process 4711 'mount' is stopped (state T)"));
    EXPECT_EQ(First().command, "kill -CONT 4711");
    // With a lease another candidate may lead, and the lease says whether one does.
    Lease(turn.lease, "pod-b", 3);
    EXPECT_EQ(First().id, "waits-for-role") << turn.key;
    Lease(turn.lease, "pod-b", 60);
    EXPECT_EQ(First().id, "no-leader") << turn.key;
    EXPECT_TRUE(Proves(First(), "process 4711 'mount' is stopped (state T)"));
    state_.leases.clear();
    state_.stopped_roles[0].roles = {"another"};
    EXPECT_EQ(First().id, "waits-for-role") << "another role is stopped";
  }
}

TEST_F(RolesRulesTest, AStoppedRoleOfAnotherDriverIsNoCause) {
  Provision();
  state_.stopped_roles = {{.process = Process(4711, 'T', ""),
                           .roles = {"provisioner"},
                           .sockets = {"/other/csi.sock"}}};
  EXPECT_EQ(First().id, "waits-for-role");
  state_.driver_sockets = {"/other/csi.sock"};
  EXPECT_EQ(First().id, "role-stopped") << "the kubelet knows the socket as the driver's";
  state_.driver_sockets = {};
  state_.stopped_roles[0].sockets = {"/plugins/fake.csi.example.com/csi.sock"};
  EXPECT_EQ(First().id, "role-stopped");
  state_.stopped_roles[0].of_node = true;
  EXPECT_EQ(First().id, "waits-for-role") << "another node's role may have to act";
}

TEST_F(RolesRulesTest, WhatTheApiRefusesARole) {
  struct Row {
    StatusCode code;
    std::string message;
    std::string_view id, step;
    Owner owner;
  };
  const std::vector<Row> rows = {
      {StatusCode::kPermissionDenied,
       "persistentvolumes is forbidden: User \"sa\" cannot create resource \"persistentvolumes\"",
       "api-refuses", "service account", Owner::kPerson},
      {StatusCode::kInvalidArgument,
       "admission webhook \"limits.example.com\" denied the request: too many", "api-refuses",
       "webhook refuses", Owner::kPerson},
      {StatusCode::kInternal, "etcdserver: mvcc: database space exceeded", "controller-error",
       "correct the problem that the message names", Owner::kController},
  };
  for (const auto make : kTurns) {
    for (const Row& row : rows) {
      state_ = healthy_;
      const Turn turn = (this->*make)();
      Call(turn.key, "retry", row.code, row.message).kind = FlightKind::kRetry;
      EXPECT_EQ(First().id, row.id) << turn.key << ": " << row.message;
      EXPECT_EQ(First().link, turn.link);
      EXPECT_EQ(First().owner, row.owner);
      EXPECT_NE(First().summary.find(row.message), std::string::npos);
      EXPECT_NE(First().step.find(row.step), std::string::npos) << First().step;
      // What the driver itself refuses comes with its call.
      Call(turn.key, "TheCall", StatusCode::kInternal, "no");
      EXPECT_NE(First().id, row.id) << turn.key;
    }
  }
}

TEST_F(RolesRulesTest, NobodysTurn) {
  EXPECT_EQ(First().id, "");
  Provision();
  state_.storage_class->Set({"volumeBindingMode"}, "WaitForFirstConsumer");
  EXPECT_EQ(First().id, "waits-for-consumer");
  state_.claim->Set({"metadata", "annotations"},
                    {{"volume.kubernetes.io/selected-node", "node-a"}});
  state_.claim_pods = {*healthy_.pod};
  EXPECT_EQ(First().id, "waits-for-role") << "once the scheduler has chosen";
  state_.storage_class->Set({"provisioner"}, "kubernetes.io/no-provisioner");
  EXPECT_EQ(First().id, "no-volume-fits") << "such volumes are made by hand";
  EXPECT_EQ(First().owner, Owner::kPerson);
}

}  // namespace
}  // namespace berth::cli::explain
