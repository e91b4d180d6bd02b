// Each cause of a claim that does not get its new size or attributes, from a gathered state.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::StatusCode;

// The claim itself is the subject, and asks for more than it has.
class ResizeRulesTest : public RulesCase {
 protected:
  ResizeRulesTest() {
    state_.subject = "pvc/data";
    state_.claim_key = "default/data";
    state_.claim = api::PersistentVolumeClaim(
        {{"kind", "PersistentVolumeClaim"},
         {"metadata", {{"name", "data"}, {"namespace", "default"}, {"uid", "claim-uid"}}},
         {"spec", {{"volumeName", "pv-1"}, {"resources", {{"requests", {{"storage", "9Gi"}}}}}}},
         {"status", {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}}}});
    state_.object = *state_.claim;
    state_.driver = "fake.csi.example.com";
    state_.handle = "vol-1";
    state_.volume = api::PersistentVolume(
        {{"metadata", {{"name", "pv-1"}}},
         {"spec",
          {{"capacity", {{"storage", "1Gi"}}},
           {"csi", {{"driver", "fake.csi.example.com"}, {"volumeHandle", "vol-1"}}}}},
         {"status", {{"phase", "Bound"}}}});
  }

  // Records the last call of the controllers, which failed.
  void Call(const std::string& key, const std::string& what, StatusCode code,
            const std::string& message) {
    state_.logs.clear();
    RulesCase::Call(key, what, code, message);
  }
  void SetResizeStatus(const std::string& status, const std::string& allocated = "9Gi") {
    state_.claim->Set({"status", "allocatedResources", "storage"}, allocated);
    state_.claim->Set({"status", "allocatedResourceStatuses", "storage"}, status);
  }
  void SetCondition(const std::string& type, const std::string& message) {
    state_.claim->Set({"status", "conditions"},
                      {{{"type", type}, {"status", "True"}, {"message", message}}});
  }
  // A claim that waits for its class has no target.
  void SetModifyStatus(const std::string& status) {
    state_.claim->Set({"spec", "volumeAttributesClassName"}, "gold");
    state_.claim->Set({"status", "modifyVolumeStatus"}, {{"status", status}});
    if (status == "Pending") return;
    state_.claim->Set({"status", "modifyVolumeStatus", "targetVolumeAttributesClassName"}, "gold");
  }
};

TEST_F(ResizeRulesTest, AResizeInProgressIsNoFault) {
  SetResizeStatus("ControllerResizeInProgress");
  EXPECT_EQ(First().id, "waits-for-role");
  EXPECT_TRUE(First().waiting);
}

TEST_F(ResizeRulesTest, ASizeThatTheDriverCannotGive) {
  SetResizeStatus("ControllerResizeInfeasible");
  SetCondition("ControllerResizeError", "rpc error: code = OutOfRange desc = too much");
  Call("resize default/data", "ControllerExpandVolume", StatusCode::kOutOfRange, "too much");
  const Cause cause = First();
  EXPECT_EQ(cause.id, "expansion-infeasible");
  EXPECT_EQ(cause.summary,
            "the driver 'fake.csi.example.com' cannot make volume 'pv-1' as large as 9Gi");
  EXPECT_TRUE(Proves(cause, "claim 'default/data' asks for 9Gi and has 1Gi"));
  EXPECT_TRUE(Proves(cause, "rpc error: code = OutOfRange desc = too much"));
}

TEST_F(ResizeRulesTest, ASizeThatTheNodeCannotReach) {
  SetResizeStatus("NodeResizeInfeasible");
  SetCondition("NodeResizeError", "no such tool");
  EXPECT_EQ(First().id, "expansion-infeasible");
  EXPECT_TRUE(Proves(First(), "no such tool"));
}

TEST_F(ResizeRulesTest, AVolumeInUseThatTheDriverDoesNotGrow) {
  SetResizeStatus("ControllerResizeInProgress");
  SetCondition("ControllerResizeError", "rpc error: code = FailedPrecondition desc = in use");
  state_.claim_pods = {api::Pod({{"metadata", {{"name", "web"}, {"namespace", "default"}}}})};
  EXPECT_EQ(First().id, "expansion-waits-for-end-of-use");
  EXPECT_TRUE(First().waiting);
  EXPECT_TRUE(Proves(First(), "pod 'default/web' uses claim 'default/data'"));
  Call("resize default/data", "ControllerExpandVolume", StatusCode::kFailedPrecondition, "in use");
  EXPECT_EQ(First().id, "expansion-waits-for-end-of-use");
  // A further request has no such condition, and the driver is not called for it.
  state_.logs.clear();
  SetCondition("Resizing", "");
  state_.events = {
      api::Event({{"reason", "VolumeResizeFailed"},
                  {"message",
                   "Unable to expand default/data because CSI driver fake.csi.example.com only "
                   "supports offline expansion and volume is currently in-use"},
                  {"involvedObject", {{"kind", "PersistentVolumeClaim"}}}})};
  EXPECT_EQ(First().id, "expansion-waits-for-end-of-use");
  // If no pod uses the volume, the driver's refusal is an error like any other.
  Call("resize default/data", "ControllerExpandVolume", StatusCode::kFailedPrecondition, "in use");
  state_.claim_pods.clear();
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(ResizeRulesTest, AnExpansionThatFailsWithoutRecords) {
  SetResizeStatus("ControllerResizeInProgress");
  SetCondition("ControllerResizeError", "read secret 'vault/keys': not found");
  EXPECT_EQ(First().id, "secret-missing");
  EXPECT_EQ(First().owner, Owner::kPerson);
  SetCondition("ControllerResizeError", "rpc error: code = Internal desc = broken");
  EXPECT_EQ(First().id, "expansion-fails");
  EXPECT_EQ(First().owner, Owner::kDriver);
}

TEST_F(ResizeRulesTest, TheNodesPartWaitsForAPod) {
  SetResizeStatus("NodeResizePending");
  state_.volume->Set({"spec", "capacity", "storage"}, "9Gi");
  EXPECT_EQ(First().id, "expansion-waits-for-node");
  EXPECT_TRUE(First().waiting);
  state_.claim_pods = {api::Pod({{"metadata", {{"name", "web"}, {"namespace", "default"}}}})};
  EXPECT_EQ(First().id, "");
}

TEST_F(ResizeRulesTest, AModificationThatWaitsOrFails) {
  SetModifyStatus("Pending");
  EXPECT_EQ(First().id, "no-attributes-class");
  EXPECT_EQ(First().summary, "VolumeAttributesClass 'gold' does not exist");
  SetModifyStatus("Infeasible");
  EXPECT_EQ(First().id, "modification-infeasible");
  state_.claim->Set({"spec", "volumeAttributesClassName"}, nullptr);
  EXPECT_NE(First().id, "modification-infeasible");
  SetModifyStatus("InProgress");
  EXPECT_EQ(First().id, "waits-for-role");
  SetCondition("ModifyVolumeError",
               "ModifyVolume failed with error: read secret. Waiting for retry.");
  EXPECT_EQ(First().id, "modification-fails");
  EXPECT_EQ(First().owner, Owner::kPerson);
  Call("modify default/data", "ControllerModifyVolume", StatusCode::kInternal, "broken");
  EXPECT_EQ(First().id, "driver-error");
  EXPECT_TRUE(Proves(First(), "ControllerModifyVolume at /run/fake.sock failed"));
}

}  // namespace
}  // namespace berth::cli::explain
