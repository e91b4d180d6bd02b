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
  WaitBecauseOf("key settings not found in configmap");
  EXPECT_EQ(First().id, "container-fails");
}

TEST_F(UseTest, ASecretOfAVolumeIsMissingUntilItIsMounted) {
  state_.events = {api::Event({{"reason", "FailedMount"},
                               {"message", "volume 'keys': secret \"keys\" not found"},
                               {"lastTimestamp", "2026-01-01T00:50:00Z"},
                               {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}})};
  EXPECT_EQ(First().id, "secret-missing");
  state_.pod->Set({"status", "phase"}, "Running");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
}

}  // namespace
}  // namespace berth::cli::explain
