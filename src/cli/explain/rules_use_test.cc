// How a pod uses what it names: claims, scheduler, Secrets and ConfigMaps.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

class UseTest : public RulesTest {
 protected:
  UseTest() { state_.volume_name = "data"; }

  void NameVolumeIn(const std::string& field) {
    state_.pod->Set({"spec", "containers"},
                    {{{"name", "main"}, {field, {{{"name", "data"}, {"mountPath", "/d"}}}}}});
    state_.object = *state_.pod;
  }
  void WaitBecauseOf(const std::string& message) {
    state_.pod->Set(
        {"status", "containerStatuses"},
        {{{"name", "main"},
          {"state",
           {{"waiting", {{"reason", "CreateContainerConfigError"}, {"message", message}}}}}}});
    state_.object = *state_.pod;
  }
};

TEST_F(UseTest, ABlockClaimInVolumeMounts) {
  state_.claim->Set({"spec", "volumeMode"}, "Block");
  NameVolumeIn("volumeDevices");
  EXPECT_EQ(First().id, "");
  NameVolumeIn("volumeMounts");
  EXPECT_EQ(First().id, "wrong-volume-mode");
  EXPECT_EQ(First().owner, Owner::kPerson);
  EXPECT_TRUE(Proves(First(), "volumeMode of claim 'default/data' is Block"));
}

TEST_F(UseTest, AFileSystemClaimInVolumeDevices) {
  NameVolumeIn("volumeMounts");
  EXPECT_EQ(First().id, "");
  NameVolumeIn("volumeDevices");
  EXPECT_EQ(First().id, "wrong-volume-mode");
}

TEST_F(UseTest, ASchedulerThatNobodyRuns) {
  Unschedule("");
  state_.pod->Set({"status", "conditions"}, base::Json::array());
  state_.pod->Set({"spec", "schedulerName"}, "mine");
  state_.pod->Set({"metadata", "creationTimestamp"}, "2026-01-01T00:59:00Z");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "no-scheduler");
  EXPECT_FALSE(First().waiting);
  EXPECT_TRUE(Proves(First(), "spec.schedulerName is 'mine'"));
  state_.pod->Set({"metadata", "creationTimestamp"}, "2026-01-01T00:59:58Z");
  EXPECT_TRUE(First().waiting);
  // It has looked at the pod, and refuses it.
  state_.pod->Set({"status", "conditions"},
                  {{{"type", "PodScheduled"}, {"status", "False"}, {"message", "too large"}}});
  EXPECT_EQ(First().id, "unscheduled");
}

TEST_F(UseTest, ASecretOrConfigMapOfTheEnvironmentIsMissing) {
  WaitBecauseOf("container 'main': secret \"password\" not found");
  EXPECT_EQ(First().id, "secret-missing");
  EXPECT_NE(First().summary.find("secret 'default/password'"), std::string::npos);
  EXPECT_EQ(First().step.find("create it"), 0u);
  WaitBecauseOf("configmap \"settings\" not found");
  EXPECT_EQ(First().id, "configmap-missing");
  WaitBecauseOf("couldn't find key zz in ConfigMap default/settings");
  EXPECT_EQ(First().id, "configmap-missing");
  EXPECT_NE(First().summary.find("lacks a key"), std::string::npos);
  WaitBecauseOf("subPath 'a/b' of volume 'data': Not a directory");
  EXPECT_EQ(First().id, "container-config");
  EXPECT_NE(First().summary.find("Not a directory"), std::string::npos);
}

TEST_F(UseTest, AClaimThatIsBeingDeletedTakesNoNewPod) {
  state_.claim->Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:50:00Z");
  Unschedule("persistentvolumeclaim \"data\" is being deleted.");
  EXPECT_EQ(First().id, "claim-deleted");
  state_.pod->Set({"status", "phase"}, "Running");
  state_.pod->Set({"spec", "nodeName"}, "node-a");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
}

TEST_F(UseTest, AnEventOfTheNodeAgentIsTheCauseIfNoRuleKnowsBetter) {
  state_.events = {api::Event({{"reason", "FailedMount"},
                               {"message", "volume 'd': no Flexvolume driver 'example.com/none'"},
                               {"lastTimestamp", "2026-01-01T00:59:00Z"},
                               {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}})};
  EXPECT_EQ(First().id, "mount-fails");
  EXPECT_NE(First().summary.find("example.com/none"), std::string::npos);
  Call(OnNode(), "NodeStageVolume", base::StatusCode::kInternal, "no such pool");
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(UseTest, AnEventWhoseCauseIsGoneBlocksNothing) {
  const auto record_at = [this](const std::string& time) {
    state_.events = {api::Event({{"reason", "FailedMount"},
                                 {"message", "volume 'd': secret \"keys\" not found"},
                                 {"lastTimestamp", time},
                                 {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}})};
  };
  record_at("2026-01-01T00:59:00Z");
  EXPECT_EQ(First().id, "secret-missing");
  record_at("2026-01-01T00:50:00Z");
  EXPECT_EQ(First().id, "");
  // The image is being pulled, which comes after the volumes.
  record_at("2026-01-01T00:59:00Z");
  state_.pod->Set({"status", "containerStatuses"},
                  {{{"name", "main"},
                    {"image", "far"},
                    {"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}}});
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "image-missing");
}

TEST_F(UseTest, AContainerThatEndedWithAnError) {
  state_.pod->Set({"status", "phase"}, "Failed");
  state_.pod->Set(
      {"status", "containerStatuses"},
      {{{"name", "main"},
        {"state",
         {{"terminated",
           {{"reason", "StartError"}, {"exitCode", 128}, {"message", "no such file"}}}}}}});
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "container-ended");
  EXPECT_TRUE(Proves(First(), "StartError, exit code 128: no such file"));
}

TEST_F(UseTest, AContainerThatRunsAndIsNotReady) {
  state_.pod->Set({"status", "phase"}, "Running");
  state_.pod->Set({"status", "conditions"},
                  {{{"type", "Ready"}, {"status", "False"}, {"reason", "ContainersNotReady"}}});
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
  state_.events = {api::Event({{"reason", "Unhealthy"},
                               {"message", "Readiness probe failed: exit code 1"},
                               {"lastTimestamp", "2026-01-01T00:59:00Z"},
                               {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}})};
  EXPECT_EQ(First().id, "not-ready");
  EXPECT_NE(First().summary.find("Readiness probe failed"), std::string::npos);
}

TEST_F(UseTest, ASecretOfAVolumeIsMissingUntilItIsMounted) {
  state_.events = {api::Event({{"reason", "FailedMount"},
                               {"message", "volume 'keys': secret \"keys\" not found"},
                               {"lastTimestamp", "2026-01-01T00:59:00Z"},
                               {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}})};
  EXPECT_EQ(First().id, "secret-missing");
  state_.pod->Set({"status", "phase"}, "Running");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
}

}  // namespace
}  // namespace berth::cli::explain
