// CSIStorageCapacity: objects and the driver's answers in, API actions out.
#include "controllers/provisioner/capacity/capacity_controller.h"
#include "controllers/provisioner/capacity/capacity_owner.h"
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Capacity = api::CsiStorageCapacity;

CapacityOptions Ours() {
  return {.ns = "driver-system",
          .owner_level = -1,
          .poll_interval = std::chrono::minutes(10),
          .retry_start = milliseconds(5),
          .retry_max = milliseconds(50)};
}

class CapacityTest : public ProvisionerTest {
 protected:
  CapacityController& BeginCapacity(CapacityOptions options = Ours(),
                                    rpc::FakeCsiDriver::Options driver = {}) {
    for (const auto& [node, zone] :
         {std::pair{"node-a", "a"}, std::pair{"node-b", "b"}, std::pair{"node-c", "b"}}) {
      cluster_.Put(MakeNode(node, {{"metadata", {{"labels", {{"zone", zone}}}}}}));
      cluster_.Put(MakeCsiNode(node, {"zone"}));
    }
    driver.capacity_bytes = int64_t{10} << 30;
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    cluster_.Put(MakeClass("immediate"));
    cluster_.Put(MakeClass("other", {{"provisioner", "another.example.com"},
                                     {"volumeBindingMode", "WaitForFirstConsumer"}}));
    auto& controller =
        cluster_.Add<CapacityController>(cluster_.AddDriver(std::move(driver)), std::move(options));
    cluster_.Start();
    return controller;
  }
  std::vector<Capacity> Objects() {
    std::vector<Capacity> out;
    for (Json& object : cluster_.client.PeekAll(Capacity::kInfo)) out.emplace_back(object);
    return out;
  }
  bool WaitObjects(size_t count) {
    return cluster_.WaitUntil([&] { return Objects().size() == count; });
  }
  static Json Stale(const std::string& name, const std::string& zone,
                    const std::string& manager = "external-provisioner") {
    return {{"apiVersion", "storage.k8s.io/v1"},
            {"kind", "CSIStorageCapacity"},
            {"metadata",
             {{"name", name},
              {"namespace", "driver-system"},
              {"labels",
               {{std::string(kCapacityDriverLabel), kDriver},
                {std::string(kCapacityManagedBy), manager}}}}},
            {"storageClassName", "late"},
            {"nodeTopology", {{"matchLabels", {{"zone", zone}}}}},
            {"capacity", "1Gi"}};
  }
};

TEST_F(CapacityTest, OneObjectForEachSegmentAndLateClass) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  for (const Capacity& object : Objects()) {
    EXPECT_EQ(object.ns(), "driver-system");
    EXPECT_THAT(object.name(), StartsWith("csisc-"));
    EXPECT_EQ(object.label(kCapacityDriverLabel), kDriver);
    EXPECT_EQ(object.label(kCapacityManagedBy), "external-provisioner");
    EXPECT_EQ(object.storage_class_name(), "late");
    EXPECT_EQ(object.capacity(), "10Gi");
    EXPECT_THAT(object.owner_references(), IsEmpty());
  }
  const auto requests = script().Requests<csi::v1::GetCapacityRequest>("GetCapacity");
  EXPECT_EQ(requests.front().accessible_topology().segments().at("zone"), "a");
  EXPECT_EQ(requests.front().volume_capabilities_size(), 0);
}

TEST_F(CapacityTest, ImmediateClassesTooWhereAskedFor) {
  CapacityOptions options = Ours();
  options.immediate_binding = true;
  BeginCapacity(options);
  EXPECT_TRUE(WaitObjects(4));
}

TEST_F(CapacityTest, ADriverWithoutTopologyHasTheSegmentsOfItsNodesAllTheSame) {
  BeginCapacity(Ours(), NoTopology());
  ASSERT_TRUE(WaitObjects(2));
}

TEST_F(CapacityTest, NodesWithoutKeysShareOneObject) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  for (const char* node : {"node-a", "node-b", "node-c"}) cluster_.Put(MakeCsiNode(node));
  ASSERT_TRUE(WaitObjects(1));
  EXPECT_EQ(*Objects()[0].node_topology(), Json::object());
}

TEST_F(CapacityTest, WithoutANodeThatHasTheDriverThereIsNone) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  for (const char* node : {"node-a", "node-b", "node-c"}) {
    cluster_.client.Remove(api::CsiNode::kInfo, "", node);
  }
  EXPECT_TRUE(WaitObjects(0));
}

TEST_F(CapacityTest, ADriverThatCannotSayHasNone) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities.erase(DriverInfo::Rpc::GET_CAPACITY);
  BeginCapacity(Ours(), driver);
  cluster_.Put(MakeNode("node-d", {{"metadata", {{"labels", {{"zone", "d"}}}}}}));
  EXPECT_EQ(script().Count("GetCapacity"), 0);
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(CapacityTest, AfterARestartWhatIsThereIsKeptMendedOrRemoved) {
  cluster_.Put(Stale("kept", "a"));
  cluster_.Put(Stale("second-for-a", "a"));
  cluster_.Put(Stale("zone-is-gone", "x"));
  cluster_.Put(Stale("of-a-node", "x", "external-provisioner-node-a"));
  BeginCapacity();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return !cluster_.Has<Capacity>("driver-system", "second-for-a") &&
           !cluster_.Has<Capacity>("driver-system", "zone-is-gone");
  }));
  EXPECT_EQ(cluster_.Get<Capacity>("driver-system", "kept").capacity(), "10Gi");
  EXPECT_EQ(cluster_.Get<Capacity>("driver-system", "of-a-node").capacity(), "1Gi");
  EXPECT_TRUE(WaitObjects(3));
}

TEST_F(CapacityTest, AnUnchangedCapacityIsNotWrittenAgain) {
  CapacityOptions options = Ours();
  options.poll_interval = milliseconds(5);
  BeginCapacity(options);
  ASSERT_TRUE(script().WaitFor("GetCapacity", 20));
  EXPECT_THAT(cluster_.client.ActionNames(), SizeIs(2));
  EXPECT_THAT(cluster_.client.ActionNames(), Each(StartsWith("create csistoragecapacities")));
}

TEST_F(CapacityTest, AClassThatIsGoneTakesItsObjectsAlong) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  cluster_.client.Remove(api::StorageClass::kInfo, "", "late");
  EXPECT_TRUE(WaitObjects(0));
}

TEST_F(CapacityTest, ANodeThatVanishesTakesItsSegmentAlong) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  cluster_.client.Remove(api::CsiNode::kInfo, "", "node-a");
  EXPECT_TRUE(WaitObjects(1));
}

TEST_F(CapacityTest, WhatAnotherDeletesOrChangesIsMendedAtOnce) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  cluster_.client.Remove(Capacity::kInfo, "driver-system", Objects()[0].name());
  ASSERT_TRUE(WaitObjects(2));
  Capacity changed = Objects()[0];
  changed.Set({"capacity"}, "1Ki");
  cluster_.Put(changed);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Objects()[0].capacity() == "10Gi"; }));
}

TEST_F(CapacityTest, AVolumeThatCameIsCountedSoonForAllClasses) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  cluster_.AddVolume("pv-1",
                     {{"metadata", {{"annotations", {{std::string(kProvisionedBy), kDriver}}}}},
                      {"spec", {{"storageClassName", "immediate"}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    const auto objects = Objects();
    return std::all_of(objects.begin(), objects.end(),
                       [](const Capacity& object) { return object.capacity() == "9Gi"; });
  }));
}

TEST_F(CapacityTest, AClassIsAskedForAnewAfterARefusal) {
  CapacityController& controller = BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  cluster_.driver->state().options().capacity_bytes = int64_t{3} << 30;
  controller.RefreshClass("late");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Objects()[0].capacity() == "3Gi"; }));
}

TEST_F(CapacityTest, AForbiddenWriteIsSaidAndTriedAgain) {
  cluster_.client.FailNext("create", "csistoragecapacities",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  BeginCapacity();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning CapacityFailed late: failed to publish"));
  EXPECT_TRUE(WaitObjects(2));
}

TEST_F(CapacityTest, AFailingDriverIsSaidAndTriedAgain) {
  BeginCapacity();
  ASSERT_TRUE(WaitObjects(2));
  script().Fail("GetCapacity", base::Error(StatusCode::kNotFound, "no pool"));
  cluster_.client.Remove(Capacity::kInfo, "driver-system", Objects()[0].name());
  EXPECT_TRUE(cluster_.events.WaitFor("GetCapacity: no pool"));
  EXPECT_TRUE(WaitObjects(2));
}

TEST_F(CapacityTest, OfANodeDeploymentOnlyTheNodesOwn) {
  CapacityOptions options = Ours();
  options.node_name = "node-b";
  BeginCapacity(options);
  ASSERT_TRUE(WaitObjects(1));
  EXPECT_EQ(Objects()[0].label(kCapacityManagedBy), "external-provisioner-node-b");
  EXPECT_EQ((*Objects()[0].node_topology())["matchLabels"]["zone"], "b");
}

TEST_F(CapacityTest, ObjectsBelongToThePodsOwnerAtTheLevel) {
  const auto controlled_by = [](const char* kind, const char* version, const char* name) {
    return Json{{{"apiVersion", version},
                 {"kind", kind},
                 {"name", name},
                 {"uid", fmt::format("uid-{}", name)},
                 {"controller", true}}};
  };
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata",
                 {{"name", "csi-0"},
                  {"namespace", "driver-system"},
                  {"uid", "uid-csi-0"},
                  {"ownerReferences", controlled_by("ReplicaSet", "apps/v1", "rs")}}}});
  CapacityOptions options = Ours();
  options.pod_name = "csi-0";
  options.owner_level = 1;
  BeginCapacity(options);
  ASSERT_TRUE(WaitObjects(2));
  const auto owners = Objects()[0].owner_references();
  ASSERT_THAT(owners, SizeIs(1));
  EXPECT_EQ(owners[0].kind, "ReplicaSet");
  EXPECT_EQ(owners[0].uid, "uid-rs");
  EXPECT_TRUE(owners[0].controller);
  options.owner_level = 0;
  EXPECT_EQ((*ReadCapacityOwner(cluster_.client, options))[0]["name"], "csi-0");
  options.owner_level = 2;
  EXPECT_EQ(ReadCapacityOwner(cluster_.client, options).status().code(), StatusCode::kNotFound);
}

TEST_F(CapacityTest, ObjectsOfANodeWithoutAPodGoWithTheNode) {
  CapacityOptions options = Ours();
  options.node_name = "node-a";
  options.owner_level = -1;
  EXPECT_EQ(ReadCapacityOwner(cluster_.client, options)->size(), 0u);
  options.node_owns = true;
  EXPECT_EQ(ReadCapacityOwner(cluster_.client, options).status().code(), StatusCode::kNotFound);
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Node"},
                {"metadata", {{"name", "node-a"}, {"uid", "uid-node-a"}}}});
  const auto owners = ReadCapacityOwner(cluster_.client, options);
  ASSERT_TRUE(owners.ok()) << base::ToString(owners.status());
  ASSERT_THAT(*owners, SizeIs(1));
  EXPECT_EQ((*owners)[0]["kind"], "Node");
  EXPECT_EQ((*owners)[0]["uid"], "uid-node-a");
}

// The values are those of the Go program's own tests.
TEST(CapacityManagerTest, IsCutAsInTheGoProgram) {
  const auto of_node = [](size_t length) {
    return CapacityManager({.node_name = "node" + std::string(length, 'a')});
  };
  const auto name = [](size_t length) { return "node" + std::string(length, 'a'); };
  EXPECT_EQ(CapacityManager({}), "external-provisioner");
  EXPECT_EQ(of_node(38), "external-provisioner-" + name(38));
  EXPECT_EQ(of_node(39), "external-p-53f40b57-" + name(39));
  EXPECT_EQ(of_node(48), "e-53f40b57-" + name(48));
  EXPECT_EQ(of_node(49), "external-provisioner-a3607ff1");
  EXPECT_EQ(of_node(63), "external-provisioner-df38e37f");
}

TEST(CapacityRequestTest, HasAllParametersOfTheClass) {
  const api::StorageClass storage_class(
      {{"parameters", {{"csi.storage.k8s.io/fstype", "xfs"}, {"tier", "gold"}}}});
  const csi::v1::GetCapacityRequest request = CapacityRequest(storage_class, {});
  EXPECT_EQ(request.parameters().size(), 2U);
  EXPECT_EQ(request.parameters().at("csi.storage.k8s.io/fstype"), "xfs");
  EXPECT_TRUE(request.has_accessible_topology());
}

}  // namespace
}  // namespace berth::controllers::provisioner
