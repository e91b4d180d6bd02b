// What happens on the node: calls of its driver, mounts, containers.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::FlightRecord;
using base::StatusCode;
using std::chrono::seconds;

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

TEST_F(RulesTest, ADriversProcessThatNobodyCanReadIsNamedWithWhatItWaitsFor) {
  Running(OnNode(), "NodeStageVolume");
  platform::ProcessInfo unreadable = Process(43, 'S', "");
  unreadable.unreadable = true;
  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'S', "ep_poll"), unreadable}};
  const Cause cause = First();
  EXPECT_EQ(cause.id, "mount-hung");
  EXPECT_EQ(cause.owner, Owner::kKernel);
  EXPECT_TRUE(Proves(cause, "process 43 'mount' waits in execve (state S)"));
  // A command that reads its stack would wait with it.
  EXPECT_EQ(cause.command.find("/stack"), std::string::npos);
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

TEST_F(RulesTest, AFailedCallCountsUntilTheNextTryHasGotToIt) {
  Call(OnNode(), "NodeStageVolume", StatusCode::kDeadlineExceeded, "no answer");
  Call(OnNode(), "retry", StatusCode::kDeadlineExceeded, "no answer").kind = FlightKind::kRetry;
  Call(OnNode(), "NodeGetCapabilities", StatusCode::kOk, "");
  Running(OnNode(), "NodeStageVolume").start = state_.now - seconds(1);
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_TRUE(Proves(First(), "NodeStageVolume at /run/fake.sock failed"));
  // The next try ended for another reason, which its retry names.
  state_.logs[0].records.pop_back();
  Call(OnNode(), "retry", StatusCode::kNotFound, "read secret 'x'").kind = FlightKind::kRetry;
  EXPECT_EQ(First().id, "secret-missing");
}

TEST_F(RulesTest, AStoppedDriverIsTheCauseWhateverItAnsweredLast) {
  state_.servers[std::string(kSocket)] = {.processes = {Process(42, 'T', "")}};
  Call(OnNode(), "NodeStageVolume", StatusCode::kAborted, "another call is at work");
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_EQ(First().command, "kill -CONT 42");
}

TEST_F(RulesTest, AStoppedDriverIsSeenBeforeACallFails) {
  const std::string socket = fmt::format("/var/lib/kubelet/plugins/{}/csi.sock", kDriver);
  state_.servers[socket] = {.processes = {Process(42, 'T', "")}};
  EXPECT_EQ(First().id, "driver-hung");
  EXPECT_EQ(First().owner, Owner::kDriver);
  EXPECT_TRUE(Proves(First(), "process 42 'mount' is stopped (state T)"));
  // The pod has its volumes, and needs no call.
  state_.pod->Set({"status", "phase"}, "Running");
  state_.object = *state_.pod;
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, AFileSystemTypeThatNothingCanMakeIsTheClasss) {
  state_.storage_class->Set({"parameters"}, {{"csi.storage.k8s.io/fstype", "zfs"}});
  Call(OnNode(), "NodeStageVolume", StatusCode::kInvalidArgument,
       "file system type 'zfs' is not supported; supported: ext4, xfs");
  EXPECT_EQ(First().id, "wrong-file-system");
  EXPECT_EQ(First().owner, Owner::kPerson);
  EXPECT_EQ(First().command, "berth get storageclass fast -o yaml");
  Call(OnNode(), "NodeStageVolume", StatusCode::kInternal, "pool 'zfs' is offline");
  EXPECT_EQ(First().id, "driver-error");
}

TEST_F(RulesTest, StorageThatIsMissingIsAPersonsToRestore) {
  Call(OnNode(), "NodeStageVolume", StatusCode::kDataLoss, "image 'x' is missing");
  EXPECT_EQ(First().id, "data-lost");
  EXPECT_NE(First().summary.find("image 'x' is missing"), std::string::npos);
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
  EXPECT_TRUE(Proves(First(), "the next try is in 8s"));
  state_.logs[0].records.pop_back();
  // Cured: the same call succeeds later.
  Call(OnNode(), "NodeStageVolume", StatusCode::kOk, "");
  EXPECT_EQ(First().id, "");
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
  EXPECT_TRUE(Proves(First(), "its driver reported this 10m ago"));
  state_.events.push_back(event("VolumeConditionNormal", "2026-01-01T00:55:00Z"));
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, AVolumeWhoseDeviceStallsKeepsItsPodAlsoWhenThatIsDeleted) {
  state_.volume_name = "data";
  const auto event = [](const std::string& reason, const std::string& message) {
    return api::Event({{"reason", reason},
                       {"message", message},
                       {"lastTimestamp", "2026-01-01T00:50:00Z"},
                       {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}});
  };
  state_.events = {event("VolumeConditionAbnormal",
                         "Volume data: device '/dev/sdb' does not answer: its ext4 could not be "
                         "written since 2026-01-01T00:49:00Z"),
                   event("RuntimeAssistedMount",
                         "volume 'data': its ext4 is mounted in the pod's sandbox by the runtime "
                         "handler at '/run/a.sock'")};
  Cause cause = First();
  EXPECT_EQ(cause.id, "volume-stalled");
  EXPECT_EQ(cause.link, Link::kPublish);
  EXPECT_EQ(cause.owner, Owner::kKernel);
  EXPECT_NE(cause.summary.find("device '/dev/sdb' does not answer"), std::string::npos);
  EXPECT_TRUE(Proves(cause, "the handler of the pod's sandbox reported this 10m ago"));
  state_.object.Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:55:00Z");
  cause = First();
  EXPECT_EQ(cause.id, "volume-stalled");
  EXPECT_EQ(cause.link, Link::kDeletion);
  // Another condition holds no deletion up.
  state_.events = {event("VolumeConditionAbnormal", "Volume data: a disk fails")};
  EXPECT_EQ(First().id, "");
}

TEST_F(RulesTest, AMountWhoseServerIsGone) {
  state_.volume_name = "data";
  const auto event = [](const std::string& volume, const std::string& at, const std::string& why) {
    return api::Event(
        {{"reason", "VolumeMountLost"},
         {"message", fmt::format("volume '{}': its FUSE mount is lost: {}", volume, why)},
         {"lastTimestamp", at},
         {"involvedObject", {{"kind", "Pod"}, {"name", "web"}}}});
  };
  state_.events = {event("other", "2026-01-01T00:50:00Z", "process 7 ended")};
  EXPECT_EQ(First().id, "");
  state_.events.push_back(event("data", "2026-01-01T00:50:00Z", "process 42 'glusterfs' ended"));
  // An agent that starts later no longer knows who it was.
  state_.events.push_back(event("data", "2026-01-01T00:55:00Z", "nobody serves it"));
  const Cause cause = First();
  EXPECT_EQ(cause.id, "mount-lost");
  EXPECT_EQ(cause.link, Link::kPublish);
  EXPECT_TRUE(Proves(cause,
                     "10m ago (event VolumeMountLost): volume 'data': its FUSE mount is "
                     "lost: process 42 'glusterfs' ended"));
  EXPECT_NE(cause.step.find("delete the pod"), std::string::npos);
  state_.pod->Set({"status", "phase"}, "Succeeded");
  EXPECT_EQ(First().id, "");
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
  EXPECT_EQ(First().summary, "'unmount '/x'' hangs: process 44 is blocked in the kernel");
}

TEST_F(RulesTest, WorkThatFailsWithoutACallIsTold) {
  FlightRecord& retry = Call(OnNode(), "retry", StatusCode::kInternal, "write the record: full");
  retry.kind = FlightKind::kRetry;
  retry.end = state_.now + seconds(8);
  EXPECT_EQ(First().id, "node-error");
  EXPECT_EQ(First().owner, Owner::kNodeAgent);
  EXPECT_TRUE(Proves(First(), "the next try is in 8s"));
  // That was cured, and something else is wrong now.
  Call(OnNode(), "retry", StatusCode::kInternal, "no mount.nfs").kind = FlightKind::kRetry;
  EXPECT_EQ(First().summary, "no mount.nfs");
}

TEST_F(RulesTest, WhatTheNodeAgentTriesInVainIsToldByItsKind) {
  struct Row {
    std::string message;
    std::string_view id;
    Owner owner;
  };
  const std::vector<Row> rows = {
      {"conflicting SELinux labels of volume 'data': it is mounted on this node with 'a', and this "
       "pod asks for 'b'",
       "selinux-conflict", Owner::kPerson},
      {"containers of the pod use volume 'data' with different SELinux labels, 'a' and 'b'",
       "selinux-conflict", Owner::kPerson},
      {"CSI driver 'x' does not serve volumes of lifecycle mode Ephemeral: its CSIDriver object "
       "does not list it",
       "driver-mode", Owner::kPerson},
      {"read CSIDriver 'x': csidrivers \"x\" is forbidden", "driver-mode", Owner::kPerson},
      {"read secret 'vault/keys': not found", "secret-missing", Owner::kPerson},
      {"write the record: full", "node-error", Owner::kNodeAgent},
  };
  for (const Row& row : rows) {
    state_.logs.clear();
    Call(OnNode(), "retry", StatusCode::kFailedPrecondition, row.message).kind = FlightKind::kRetry;
    EXPECT_EQ(First().id, row.id) << row.message;
    EXPECT_EQ(First().owner, row.owner) << row.message;
    EXPECT_EQ(First().summary, row.message);
  }
}

// Of a pod's own volume there is neither claim nor handle: it is known by the pod.
TEST_F(RulesTest, AnInlineVolumeOfADriverThatDoesNotServeThose) {
  state_.claim.reset();
  state_.claim_key.clear();
  state_.volume.reset();
  state_.driver.clear();
  state_.attachment.reset();
  state_.attachments.clear();
  Call("volumes pod-uid/scratch", "retry", StatusCode::kInvalidArgument,
       "CSI driver 'x' does not serve volumes of lifecycle mode Ephemeral")
      .kind = FlightKind::kRetry;
  EXPECT_EQ(First().id, "driver-mode");
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

}  // namespace
}  // namespace berth::cli::explain
