#include "controllers/attachdetach/attach_detach.h"

#include <gmock/gmock.h>

#include "api/kinds/csi_names.h"
#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"
#include "volume/fake_registry.h"

namespace berth::controllers::attachdetach {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Attachment = api::VolumeAttachment;
using Volume = api::PersistentVolume;

constexpr char kDriver[] = "fake.csi.example.com";

Json On(const std::string& node) {
  return {{"spec", {{"nodeName", node}}}, {"status", {{"phase", "Running"}}}};
}

class AttachDetachTest : public ::testing::Test {
 protected:
  void Begin(Options options = {}) {
    cluster_.Add<AttachDetach>(options);
    cluster_.Put(MakeNode("node-a"));
    cluster_.Put(MakeNode("node-b"));
    AddBound("data");
    cluster_.Start();
  }
  void AddBound(const std::string& claim, const Json& more = nullptr) {
    cluster_.Put(MakeVolume("pv-" + claim, Merged(BoundVolume(claim), more)));
    cluster_.Put(MakeClaim(claim, BoundClaim("pv-" + claim)));
  }
  static std::string AttachmentName(const std::string& claim, const std::string& node) {
    return api::VolumeAttachmentName(api::VolumeHandle("handle-pv-" + claim), kDriver,
                                     api::NodeName(node));
  }
  static std::string Unique(const std::string& claim) {
    return api::UniqueVolumeName(kDriver, api::VolumeHandle("handle-pv-" + claim));
  }
  Attachment Get(const std::string& claim, const std::string& node) {
    return cluster_.Get<Attachment>("", AttachmentName(claim, node));
  }
  bool Exists(const std::string& claim, const std::string& node) {
    return cluster_.Has<Attachment>("", AttachmentName(claim, node));
  }
  bool WaitExists(const std::string& claim, const std::string& node) {
    return cluster_.WaitUntil([&] { return Exists(claim, node); });
  }
  bool WaitGone(const std::string& claim, const std::string& node) {
    return cluster_.WaitUntil([&] { return !Exists(claim, node); });
  }
  std::vector<std::string> Attached(const std::string& node) {
    return cluster_.Get<api::Node>("", node).volumes_attached();
  }
  // What the attacher does.
  void FulFil(const std::string& claim, const std::string& node) {
    Attachment attachment = Get(claim, node);
    attachment.Set({"status", "attached"}, true);
    cluster_.Put(attachment);
  }
  // What the node agent does.
  void Report(const std::string& node, const std::vector<std::string>& in_use) {
    api::Node object = cluster_.Get<api::Node>("", node);
    object.Set({"status", "volumesInUse"}, in_use);
    cluster_.Put(object);
  }
  void SetReady(const std::string& node, const std::string& status) {
    api::Node object = cluster_.Get<api::Node>("", node);
    object.Set({"status", "conditions"}, Json::array({{{"type", "Ready"}, {"status", status}}}));
    cluster_.Put(object);
  }
  // A pod runs on node-a and uses `claim`; the node was told that it is attached.
  void RunPod(const std::string& claim = "data") {
    cluster_.Put(MakePod("web-" + claim, claim, On("node-a")));
    ASSERT_TRUE(WaitExists(claim, "node-a"));
    FulFil(claim, "node-a");
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      const auto attached = Attached("node-a");
      return std::find(attached.begin(), attached.end(), Unique(claim)) != attached.end();
    }));
  }
  void EndPod(const std::string& claim = "data") {
    cluster_.client.Remove(api::Pod::kInfo, "default", "web-" + claim);
  }
  // Another volume on node-a comes and goes: whatever the queues had before it is done, but for
  // four workers in parallel, so twice.
  void Barrier() {
    for (int i = 0; i < 8; ++i) {
      const std::string claim = fmt::format("barrier{}", ++barriers_);
      AddBound(claim);
      cluster_.Put(MakePod("web-" + claim, claim, On("node-b")));
      ASSERT_TRUE(WaitExists(claim, "node-b"));
    }
  }

  FakeCluster cluster_;
  int barriers_ = 0;
};

TEST_F(AttachDetachTest, AttachesForAPodAndTellsTheNodeWhenItIsDone) {
  Begin();
  cluster_.Put(MakePod("web-data", "data", On("node-a")));
  ASSERT_TRUE(WaitExists("data", "node-a"));
  const Attachment attachment = Get("data", "node-a");
  EXPECT_EQ(attachment.attacher(), kDriver);
  EXPECT_EQ(attachment.node_name(), "node-a");
  EXPECT_EQ(attachment.pv_name(), "pv-data");
  EXPECT_THAT(Attached("node-a"), IsEmpty());
  FulFil("data", "node-a");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Attached("node-a").empty(); }));
  EXPECT_THAT(Attached("node-a"), ElementsAre(Unique("data")));
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal SuccessfulAttachVolume default/web-data: AttachVolume.Attach succeeded for volume "
      "\"pv-data\""));
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("create volumeattachments/" + AttachmentName("data", "node-a"),
                          "patch nodes/node-a/status"));
}

TEST_F(AttachDetachTest, ADriverThatNeedsNoAttachGetsNone) {
  cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                {"kind", "CSIDriver"},
                {"metadata", {{"name", "plain.example.com"}}},
                {"spec", {{"attachRequired", false}}}});
  Begin();
  AddBound("plain", {{"spec", {{"csi", {{"driver", "plain.example.com"}}}}}});
  cluster_.Put(MakePod("web-plain", "plain", On("node-a")));
  cluster_.Put(MakePod("web-data", "data", On("node-a")));
  ASSERT_TRUE(WaitExists("data", "node-a"));
  Barrier();
  EXPECT_FALSE(cluster_.Has<Attachment>(
      "", api::VolumeAttachmentName(api::VolumeHandle("handle-pv-plain"), "plain.example.com",
                                    api::NodeName("node-a"))));
}

TEST_F(AttachDetachTest, APodWithoutNodeOrAnUnboundClaimAttachesNothing) {
  Begin();
  cluster_.Put(MakePod("waiting", "data"));
  cluster_.Put(MakeClaim("unbound"));
  cluster_.Put(MakePod("early", "unbound", On("node-a")));
  Barrier();
  EXPECT_FALSE(Exists("data", "node-a"));
  // The claim is bound later.
  AddBound("unbound");
  EXPECT_TRUE(WaitExists("unbound", "node-a"));
}

TEST_F(AttachDetachTest, ANodeThatManagesItselfIsLeftAlone) {
  Begin();
  Json node = MakeNode("node-own");
  node["metadata"].erase("annotations");
  cluster_.Put(node);
  cluster_.Put(MakePod("web-data", "data", On("node-own")));
  Barrier();
  EXPECT_FALSE(Exists("data", "node-own"));
  // The controller manages the node as soon as the Node has the annotation.
  cluster_.Put(MakeNode("node-own"));
  EXPECT_TRUE(WaitExists("data", "node-own"));
}

TEST_F(AttachDetachTest, DetachesWhenThePodIsGoneAndTheNodeLetGoEntryFirst) {
  Begin();
  RunPod();
  cluster_.client.TakeActions();
  EndPod();
  ASSERT_TRUE(WaitGone("data", "node-a"));
  const std::vector<std::string> actions = cluster_.client.TakeActions();
  ASSERT_GE(actions.size(), 2u);
  EXPECT_THAT(actions[0], HasSubstr("patch nodes/node-a/status"));
  EXPECT_THAT(actions[0], HasSubstr("\"volumesAttached\":[]"));
  EXPECT_THAT(actions[0], HasSubstr("resourceVersion"));
  EXPECT_THAT(actions[1],
              HasSubstr("delete volumeattachments/" + AttachmentName("data", "node-a")));
}

TEST_F(AttachDetachTest, AVolumeInUseStaysUntilTheNodeSaysThatItIsNot) {
  Begin();
  RunPod();
  Report("node-a", {Unique("data")});
  EndPod();
  Barrier();
  EXPECT_TRUE(Exists("data", "node-a"));
  EXPECT_THAT(Attached("node-a"), ElementsAre(Unique("data")));
  Report("node-a", {});
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

TEST_F(AttachDetachTest, AVolumeThatComesIntoUseWhileItIsDetachedStays) {
  Begin();
  RunPod();
  cluster_.client.TakeActions();
  // The entry is about to be removed, and cannot be for a while.
  for (int i = 0; i < 5; ++i) {
    cluster_.client.FailNext("patch", "nodes/status",
                             base::Error(StatusCode::kAborted, "the object has been modified"));
  }
  EndPod();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.client.ActionNames().empty(); }));
  Report("node-a", {Unique("data")});
  Barrier();
  EXPECT_TRUE(Exists("data", "node-a"));
  EXPECT_THAT(Attached("node-a"), ElementsAre(Unique("data")));
  Report("node-a", {});
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

TEST_F(AttachDetachTest, ANodeThatIsNotReadyIsForcedOnlyAfterTheWait) {
  Options options;
  options.max_wait_for_unmount = std::chrono::milliseconds(200);
  Begin(options);
  RunPod();
  Report("node-a", {Unique("data")});
  SetReady("node-a", "Unknown");
  const auto began = std::chrono::steady_clock::now();
  EndPod();
  ASSERT_TRUE(WaitGone("data", "node-a"));
  EXPECT_GE(std::chrono::steady_clock::now() - began, options.max_wait_for_unmount);
  EXPECT_THAT(Attached("node-a"), IsEmpty());
}

TEST_F(AttachDetachTest, AReadyNodeIsNeverForced) {
  Options options;
  options.max_wait_for_unmount = std::chrono::milliseconds(1);
  Begin(options);
  RunPod();
  Report("node-a", {Unique("data")});
  EndPod();
  Barrier();
  Report("node-a", {Unique("data"), "something-else"});
  Barrier();
  EXPECT_TRUE(Exists("data", "node-a"));
}

TEST_F(AttachDetachTest, ForcingCanBeForbidden) {
  Options options;
  options.max_wait_for_unmount = std::chrono::milliseconds(1);
  options.disable_force_detach_on_timeout = true;
  Begin(options);
  RunPod();
  Report("node-a", {Unique("data")});
  SetReady("node-a", "False");
  EndPod();
  Barrier();
  EXPECT_TRUE(Exists("data", "node-a"));
}

TEST_F(AttachDetachTest, OutOfServiceFreesWhatItsTerminatingPodsHold) {
  Begin();
  RunPod();
  Report("node-a", {Unique("data")});
  api::Pod pod = cluster_.Get<api::Pod>("default", "web-data");
  pod.Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:00:00Z");
  cluster_.Put(pod);
  Barrier();
  ASSERT_TRUE(Exists("data", "node-a"));
  api::Node node = cluster_.Get<api::Node>("", "node-a");
  node.Set({"spec", "taints"}, Json::array({{{"key", std::string(kOutOfServiceTaint)},
                                             {"value", "nodeshutdown"},
                                             {"effect", "NoExecute"}}}));
  cluster_.Put(node);
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

TEST_F(AttachDetachTest, ANodeThatIsGoneHoldsNothing) {
  Begin();
  RunPod();
  Report("node-a", {Unique("data")});
  EndPod();
  cluster_.client.Remove(api::Node::kInfo, "", "node-a");
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

TEST_F(AttachDetachTest, AVolumeForOneNodeIsRefusedToAnother) {
  Begin();
  RunPod();
  cluster_.Put(MakePod("second", "data", On("node-b")));
  ASSERT_TRUE(cluster_.events.WaitFor(
      "Warning FailedAttachVolume default/second: Multi-Attach error for volume \"pv-data\" Volume "
      "is already used by pod(s) web-data"));
  EXPECT_FALSE(Exists("data", "node-b"));
  // It moves as soon as the first has let go.
  EndPod();
  EXPECT_TRUE(WaitExists("data", "node-b"));
  EXPECT_FALSE(Exists("data", "node-a"));
}

TEST_F(AttachDetachTest, AnUncertainAttachmentElsewhereRefusesToo) {
  Begin();
  // Not attached yet, and on its way out: held by its attacher's finalizer.
  Attachment old(Json{{"apiVersion", "storage.k8s.io/v1"},
                      {"kind", "VolumeAttachment"},
                      {"metadata",
                       {{"name", AttachmentName("data", "node-a")},
                        {"finalizers", {"external-attacher/fake"}},
                        {"deletionTimestamp", "2026-01-01T00:00:00Z"}}},
                      {"spec",
                       {{"attacher", kDriver},
                        {"nodeName", "node-a"},
                        {"source", {{"persistentVolumeName", "pv-data"}}}}}});
  cluster_.Put(old);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Exists("data", "node-a"); }));
  Barrier();
  cluster_.Put(MakePod("second", "data", On("node-b")));
  ASSERT_TRUE(
      cluster_.events.WaitFor("can't be attached to another: it is still at node 'node-a'"));
  EXPECT_FALSE(Exists("data", "node-b"));
  cluster_.client.Remove(Attachment::kInfo, "", AttachmentName("data", "node-a"));
  EXPECT_TRUE(WaitExists("data", "node-b"));
}

TEST_F(AttachDetachTest, ASharedVolumeGoesToMany) {
  Begin();
  AddBound("shared", {{"spec", {{"accessModes", {"ReadWriteMany"}}}}});
  cluster_.Put(MakePod("one", "shared", On("node-a")));
  cluster_.Put(MakePod("two", "shared", On("node-b")));
  EXPECT_TRUE(WaitExists("shared", "node-a"));
  EXPECT_TRUE(WaitExists("shared", "node-b"));
}

TEST_F(AttachDetachTest, AnAttachErrorIsSaidOnThePod) {
  Begin();
  cluster_.Put(MakePod("web-data", "data", On("node-a")));
  ASSERT_TRUE(WaitExists("data", "node-a"));
  Attachment attachment = Get("data", "node-a");
  attachment.Set({"status"},
                 {{"attached", false}, {"attachError", {{"message", "rpc error: no"}}}});
  cluster_.Put(attachment);
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning FailedAttachVolume default/web-data: AttachVolume.Attach failed for volume "
      "\"pv-data\" : rpc error: no"));
}

TEST_F(AttachDetachTest, AfterARestartWhatIsNotUsedAnyMoreIsDetached) {
  Json attachment = {{"apiVersion", "storage.k8s.io/v1"},
                     {"kind", "VolumeAttachment"},
                     {"metadata", {{"name", AttachmentName("data", "node-a")}}},
                     {"spec",
                      {{"attacher", kDriver},
                       {"nodeName", "node-a"},
                       {"source", {{"persistentVolumeName", "pv-data"}}}}},
                     {"status", {{"attached", true}}}};
  cluster_.Put(attachment);
  Begin();
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

TEST_F(AttachDetachTest, AnotherMakersAttachmentIsLeftAloneAndCounts) {
  cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                {"kind", "VolumeAttachment"},
                {"metadata", {{"name", "by-hand"}}},
                {"spec",
                 {{"attacher", kDriver},
                  {"nodeName", "node-b"},
                  {"source", {{"persistentVolumeName", "pv-data"}}}}},
                {"status", {{"attached", true}}}});
  Begin();
  cluster_.Put(MakePod("web-data", "data", On("node-a")));
  EXPECT_TRUE(cluster_.events.WaitFor("Multi-Attach error"));
  EXPECT_TRUE(cluster_.Has<Attachment>("", "by-hand"));
}

TEST_F(AttachDetachTest, ADeletionThatTheApiRefusesGivesTheVolumeBack) {
  Begin();
  RunPod();
  cluster_.client.FailNext("delete", "volumeattachments",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  EndPod();
  EXPECT_TRUE(WaitGone("data", "node-a"));  // at the second try
}

TEST_F(AttachDetachTest, AVolumeWantedAgainWhileItIsDeletedComesBackAsANewAttachment) {
  Begin();
  RunPod();
  Attachment held = Get("data", "node-a");
  held.add_finalizer("external-attacher/fake");
  cluster_.Put(held);
  EndPod();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get("data", "node-a").deleting(); }));
  const std::string first = Get("data", "node-a").uid();
  cluster_.Put(MakePod("again", "data", On("node-a")));
  Barrier();
  EXPECT_EQ(Get("data", "node-a").uid(), first);
  EXPECT_THAT(Attached("node-a"), IsEmpty());
  cluster_.client.Remove(Attachment::kInfo, "", AttachmentName("data", "node-a"));
  ASSERT_TRUE(WaitExists("data", "node-a"));
  EXPECT_FALSE(Get("data", "node-a").deleting());
}

TEST_F(AttachDetachTest, EntriesOfOtherVolumePluginsStay) {
  Begin();
  api::Node node = cluster_.Get<api::Node>("", "node-a");
  node.Set({"status", "volumesAttached"},
           Json::array({{{"name", "flexvolume-x/y"}, {"devicePath", "/dev/x"}}}));
  cluster_.Put(node);
  RunPod();
  EXPECT_THAT(Attached("node-a"), ElementsAre("flexvolume-x/y", Unique("data")));
  EndPod();
  ASSERT_TRUE(WaitGone("data", "node-a"));
  EXPECT_THAT(Attached("node-a"), ElementsAre("flexvolume-x/y"));
}

TEST_F(AttachDetachTest, AHostMountIsAUse) {
  Begin();
  cluster_.Put({{"apiVersion", "storage.berth.dev/v1alpha1"},
                {"kind", "HostMount"},
                {"metadata", {{"name", "m"}, {"namespace", "default"}}},
                {"spec", {{"nodeName", "node-a"}, {"claimName", "data"}}}});
  ASSERT_TRUE(WaitExists("data", "node-a"));
  cluster_.client.Remove(api::HostMount::kInfo, "default", "m");
  EXPECT_TRUE(WaitGone("data", "node-a"));
}

// Volumes of a Flexvolume driver, which this process may have.
class FlexAttachDetachTest : public AttachDetachTest {
 protected:
  static constexpr char kFlexDriver[] = "acme.io/block";
  static constexpr char kFlexUnique[] = "flexvolume-acme.io/block/pv-flex";

  void BeginFlex(bool attaches) {
    List(attaches);
    controller_ = &cluster_.Add<AttachDetach>(Options{.plugins = &*registry_});
    cluster_.Put(MakeNode("node-a"));
    cluster_.Put(MakeNode("node-b"));
    Json volume = MakeVolume("pv-flex", BoundVolume("flex"));
    volume["spec"].erase("csi");
    volume["spec"]["flexVolume"] = {{"driver", kFlexDriver}};
    cluster_.Put(volume);
    cluster_.Put(MakeClaim("flex", BoundClaim("pv-flex")));
    cluster_.Start();
    ASSERT_TRUE(registry_->Init().ok());
  }
  ~FlexAttachDetachTest() override {
    registry_->Stop();
    cluster_.Stop();
  }
  void List(bool attaches, bool tell = false) {
    const auto driver = std::make_shared<volume::FakeDriverPlugin>(kFlexDriver);
    driver->attaches = attaches;
    registry_.prober().List({driver}, tell);
  }
  static std::string FlexName(const std::string& node = "node-a") {
    return api::ParseUniqueName(kFlexUnique)->AttachmentName(api::NodeName(node));
  }
  bool WaitFlexExists() {
    return cluster_.WaitUntil([&] { return cluster_.Has<Attachment>("", FlexName()); });
  }
  void FulFilFlex(const std::string& device) {
    Attachment attachment = cluster_.Get<Attachment>("", FlexName());
    attachment.Set({"status"},
                   {{"attached", true}, {"attachmentMetadata", {{"devicePath", device}}}});
    cluster_.Put(attachment);
  }
  bool WaitDevice(const std::string& device) {
    return cluster_.WaitUntil([&] {
      const api::Node node = cluster_.Get<api::Node>("", "node-a");
      const Json& entries = base::json::Array(node.json(), {"status", "volumesAttached"});
      return entries == Json::array({{{"name", kFlexUnique}, {"devicePath", device}}});
    });
  }

  AttachDetach* controller_ = nullptr;
  volume::FakeRegistry registry_{
      [this](const std::string& plugin) { controller_->PluginChanged(plugin); }};
};

TEST_F(FlexAttachDetachTest, AVolumeOfADriverThatAttachesIsAttachedAndItsDeviceTold) {
  BeginFlex(/*attaches=*/true);
  cluster_.Put(MakePod("web", "flex", On("node-a")));
  ASSERT_TRUE(WaitFlexExists());
  EXPECT_EQ(cluster_.Get<Attachment>("", FlexName()).attacher(), api::kFlexAttacher);
  FulFilFlex("/dev/sdx");
  ASSERT_TRUE(WaitDevice("/dev/sdx"));
  // It was attached anew, as another device.
  FulFilFlex("/dev/sdy");
  ASSERT_TRUE(WaitDevice("/dev/sdy"));
  cluster_.Put(MakePod("other", "flex", On("node-b")));
  EXPECT_TRUE(cluster_.events.WaitFor("Multi-Attach error"));
  cluster_.client.Remove(api::Pod::kInfo, "default", "web");
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return !cluster_.Has<Attachment>("", FlexName()) &&
           cluster_.Has<Attachment>("", FlexName("node-b"));
  }));
  EXPECT_THAT(Attached("node-a"), IsEmpty());
}

TEST_F(FlexAttachDetachTest, ADriverThatOnlyMountsNeedsNoneUntilItsUpdateAttaches) {
  BeginFlex(/*attaches=*/false);
  cluster_.Put(MakePod("web", "flex", On("node-a")));
  AddBound("data");
  RunPod();
  EXPECT_FALSE(cluster_.Has<Attachment>("", FlexName()));
  List(/*attaches=*/true, /*tell=*/true);
  EXPECT_TRUE(WaitFlexExists());
}

TEST_F(FlexAttachDetachTest, WhatARemovedDriverAttachedStaysWhileAPodUsesIt) {
  BeginFlex(/*attaches=*/true);
  cluster_.Put(MakePod("web", "flex", On("node-a")));
  ASSERT_TRUE(WaitFlexExists());
  registry_.prober().List({}, /*tell=*/true);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return registry_->FindByName(kFlexDriver) == nullptr; }));
  AddBound("data");
  RunPod();
  Barrier();
  EXPECT_TRUE(cluster_.Has<Attachment>("", FlexName()));
  cluster_.client.Remove(api::Pod::kInfo, "default", "web");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", FlexName()); }));
}

}  // namespace
}  // namespace berth::controllers::attachdetach
