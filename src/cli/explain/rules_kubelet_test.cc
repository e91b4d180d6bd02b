// Each cause beside a kubelet, which shows at the sockets where it asks and in its events.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

constexpr std::string_view kAgent = "/run/agent.sock";

class KubeletTest : public RulesTest {
 protected:
  void Says(const std::string& message, const std::string& time = "2026-01-01T00:59:00Z",
            const std::string& reason = "FailedMount") {
    state_.events.push_back(api::Event({{"reason", reason},
                                        {"message", message},
                                        {"lastTimestamp", time},
                                        {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}}));
  }
  void Serve(std::string_view socket, char state) {
    state_.servers[std::string(socket)] = {.listening = base::OkStatus(),
                                           .processes = {Process(4711, state, "")}};
  }
};

TEST_F(KubeletTest, ADriverThatASignalStopped) {
  state_.driver_sockets = {std::string(kSocket)};
  Serve(kSocket, 'S');
  EXPECT_EQ(First().id, "");
  Serve(kSocket, 'T');
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_EQ(First().command, "kill -CONT 4711");
  EXPECT_TRUE(Proves(First(), "is stopped (state T)"));
  // It serves other volumes, too, but this pod has its volumes already.
  state_.pod->Set({"status", "phase"}, "Running");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
}

TEST_F(KubeletTest, ADriverThatEndedAndIsStillRegistered) {
  state_.driver_sockets = {std::string(kSocket)};
  state_.servers[std::string(kSocket)] = {
      .listening = base::Error(base::StatusCode::kUnavailable, "nobody listens"), .processes = {}};
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_TRUE(Proves(First(), "nobody listens"));
}

TEST_F(KubeletTest, ABlockAgentThatASignalStopped) {
  state_.agent_sockets = {std::string(kAgent)};
  Serve(kAgent, 'T');
  EXPECT_EQ(First().id, "block-agent-hung");
  EXPECT_EQ(First().owner, Owner::kNodeAgent);
  EXPECT_TRUE(Proves(First(), "it serves '/run/agent.sock'"));
}

TEST_F(KubeletTest, AnEventNamesWhoCanRemoveItsCause) {
  const auto cause_of = [this](const std::string& message) {
    state_.events.clear();
    Says(message);
    return First();
  };
  Cause cause = cause_of(
      "MountVolume.SetUp failed for volume \"d\": mount.nfs: access denied by server while "
      "mounting h:/x");
  EXPECT_EQ(cause.id, "access-denied");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_EQ(cause.link, Link::kPublish);
  cause = cause_of(
      "MountVolume.MountDevice failed for volume \"d\" : rpc error: code = Internal desc = no "
      "pool");
  EXPECT_EQ(cause.id, "driver-error");
  EXPECT_EQ(cause.owner, Owner::kDriver);
  EXPECT_EQ(cause.link, Link::kStage);
  EXPECT_EQ(cause_of("rpc error: code = DeadlineExceeded desc = context deadline exceeded").id,
            "driver-hung");
  EXPECT_EQ(cause_of("fetching NodeStageSecretRef default/keys failed").id, "secret-missing");
  EXPECT_EQ(cause_of("disk on fire").id, "mount-fails");
}

TEST_F(KubeletTest, AnOperationThatFailedTellsMoreThanAWait) {
  Says("rpc error: code = Internal desc = no pool");
  Says("unmounted volumes=[d]: timed out waiting for the condition", "2026-01-01T00:59:50Z");
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(KubeletTest, AClaimThatNamesAVolumeOfTheOtherMode) {
  state_.claim->Set({"status", "phase"}, "Pending");
  state_.attachment.reset();
  state_.attachments.clear();
  state_.csi_nodes.clear();
  state_.volume->Set({"spec", "volumeMode"}, "Block");
  EXPECT_EQ(First().id, "wrong-volume-mode");
  EXPECT_EQ(First().owner, Owner::kPerson);
}

TEST_F(KubeletTest, AnEventSaysThatAVolumeDoesNotGrow) {
  state_.claim->Set({"status", "capacity", "storage"}, "512Mi");
  state_.pod->Set({"status", "phase"}, "Running");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
  Says("NodeExpandVolume failed: rpc error: code = Internal desc = worn out",
       "2026-01-01T00:59:00Z", "VolumeResizeFailed");
  EXPECT_EQ(First().id, "expansion-fails");
  EXPECT_EQ(First().owner, Owner::kDriver);
  state_.claim->Set({"status", "capacity", "storage"}, "1Gi");
  EXPECT_EQ(First().id, "");
}

}  // namespace
}  // namespace berth::cli::explain
