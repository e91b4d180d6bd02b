#include "cli/plugins/upgrade_mount_pod.h"

#include <gmock/gmock.h>

#include <thread>

#include "cli/plugins/mount_pods.h"
#include "kube/fake_client.h"

namespace berth::cli {
namespace {

using base::Json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class UpgradeMountPodTest : public testing::Test {
 protected:
  UpgradeMountPodTest() {
    client_.Add(Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-a"}}}});
    AddSet(Json::array({{{"operator", "Exists"}}}));
    AddRevision("one", 1);
    options_.node = "node-a";
    options_.timeout = std::chrono::seconds(30);
  }

  void AddSet(const Json& tolerations) {
    const Json labels = {{kMountPodLabel, kMountPodValue}};
    set_ = api::DaemonSet(client_.Add(
        Json{{"apiVersion", "apps/v1"},
             {"kind", "DaemonSet"},
             {"metadata", {{"name", "mount"}, {"namespace", "m"}, {"generation", 1}}},
             {"spec",
              {{"template",
                {{"metadata", {{"labels", labels}}}, {"spec", {{"tolerations", tolerations}}}}}}},
             {"status", {{"observedGeneration", 1}}}}));
  }
  Json Owner() const {
    return Json::array({{{"apiVersion", "apps/v1"},
                         {"kind", "DaemonSet"},
                         {"name", "mount"},
                         {"uid", set_.uid()},
                         {"controller", true}}});
  }
  void AddRevision(const std::string& hash, int number) {
    client_.Add(Json{{"apiVersion", "apps/v1"},
                     {"kind", "ControllerRevision"},
                     {"metadata",
                      {{"name", "mount-" + hash},
                       {"namespace", "m"},
                       {"labels", {{"controller-revision-hash", hash}}},
                       {"ownerReferences", Owner()}}},
                     {"revision", number}});
  }
  void AddMountPod(const std::string& name, const std::string& hash) {
    client_.Add(
        Json{{"apiVersion", "v1"},
             {"kind", "Pod"},
             {"metadata",
              {{"name", name},
               {"namespace", "m"},
               {"labels", {{"controller-revision-hash", hash}}},
               {"ownerReferences", Owner()}}},
             {"spec", {{"nodeName", "node-a"}}},
             {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}});
  }
  void AddPod(const std::string& name, const Json& tolerations = Json::array()) {
    const Json volume = {{"name", "v"}, {"glusterfs", {{"endpoints", "e"}, {"path", "p"}}}};
    client_.Add(Json{{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", {{"name", name}, {"namespace", "default"}}},
                     {"spec",
                      {{"nodeName", "node-a"},
                       {"volumes", Json::array({volume})},
                       {"tolerations", tolerations}}}});
  }
  bool Tainted() const { return client_.Peek<api::Node>("", "node-a")->has_taint(kUpgradeTaint); }
  // What the rest of the cluster does while the command waits.
  void Remove(const std::string& ns, const std::string& name) {
    client_.Remove(api::kinds::kPod, ns, name);
  }
  std::string Run() {
    testing::internal::CaptureStdout();
    status_ = UpgradeMountPod(client_, options_, stop_.get_token());
    return testing::internal::GetCapturedStdout();
  }

  kube::FakeClient client_;
  api::DaemonSet set_;
  UpgradeMountPodOptions options_;
  std::stop_source stop_;
  base::Status status_;
};

TEST_F(UpgradeMountPodTest, TheNodeIsEmptiedBeforeItsMountPodGoes) {
  AddMountPod("old", "one");
  AddRevision("two", 2);
  AddPod("web");
  std::jthread cluster([this] {
    EXPECT_TRUE(client_.WaitUntil([&] { return Tainted(); }));
    EXPECT_FALSE(client_.Peek<api::Pod>("m", "old")->deleting()) << "while 'web' has its mounts";
    Remove("default", "web");
    EXPECT_TRUE(client_.WaitUntil([&] { return client_.Peek<api::Pod>("m", "old")->deleting(); }));
    AddMountPod("new", "two");
    EXPECT_TRUE(Tainted()) << "while the old one is there";
    Remove("m", "old");
  });
  const std::string said = Run();
  cluster.join();
  ASSERT_TRUE(status_.ok()) << base::ToString(status_);
  EXPECT_FALSE(Tainted());
  EXPECT_THAT(said, HasSubstr("deleted mount pod m/old"));
  EXPECT_THAT(said, HasSubstr("newest template are ready: m/new"));
}

TEST_F(UpgradeMountPodTest, ADryRunChangesNothing) {
  AddMountPod("old", "one");
  AddRevision("two", 2);
  AddPod("web");
  AddPod("agent", Json::array({{{"operator", "Exists"}}}));
  client_.TakeActions();
  options_.dry_run = true;
  const std::string said = Run();
  EXPECT_TRUE(status_.ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty());
  EXPECT_THAT(said, HasSubstr("would evict pod default/web"));
  EXPECT_THAT(said, HasSubstr("would delete mount pod m/old"));
  EXPECT_THAT(said, HasSubstr("pod default/agent tolerates the taint and stays"));
}

TEST_F(UpgradeMountPodTest, ANewestMountPodIsLeftAlone) {
  AddMountPod("new", "one");
  AddPod("web");
  client_.TakeActions();
  EXPECT_THAT(Run(), HasSubstr("nothing to do"));
  EXPECT_TRUE(status_.ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty());
}

TEST_F(UpgradeMountPodTest, WhatAnInterruptedOneLeftIsFinished) {
  AddMountPod("new", "one");
  Json node = client_.Peek(api::kinds::kNode, "", "node-a");
  const Json other = {{"key", "other"}, {"effect", "NoSchedule"}};
  node["spec"]["taints"] = Json::array({other, MakeUpgradeTaint()});
  client_.Add(node);
  Run();
  EXPECT_TRUE(status_.ok()) << base::ToString(status_);
  EXPECT_EQ(client_.Peek<api::Node>("", "node-a")->taints(), Json::array({other}));
}

TEST_F(UpgradeMountPodTest, WhoHoldsItUpIsNamedAndTheTaintStays) {
  AddMountPod("old", "one");
  AddRevision("two", 2);
  AddPod("web");
  options_.timeout = std::chrono::seconds(1);
  Run();
  EXPECT_EQ(status_.code(), base::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(base::Message(status_)), HasSubstr("still on the node: default/web"));
  EXPECT_THAT(std::string(base::Message(status_)), HasSubstr("stays tainted"));
  EXPECT_TRUE(Tainted());
  EXPECT_TRUE(client_.Peek<api::Pod>("m", "old").has_value());
}

TEST_F(UpgradeMountPodTest, ASetThatWouldBeEvictedItselfIsRefused) {
  AddSet(Json::array());
  AddRevision("three", 3);
  AddMountPod("old", "one");
  Run();
  EXPECT_EQ(status_.code(), base::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Tainted());
}

TEST_F(UpgradeMountPodTest, ANodeWithoutMountPodsSaysSo) {
  Run();
  EXPECT_EQ(status_.code(), base::StatusCode::kNotFound);
  EXPECT_THAT(std::string(base::Message(status_)), HasSubstr("--daemonset"));
  options_.daemon_set = "mount";
  Run();
  EXPECT_EQ(status_.code(), base::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::cli
