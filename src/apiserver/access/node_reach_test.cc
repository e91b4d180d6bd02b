// Which objects a node reaches by its pods, and which Secrets a block agent by its volumes.

#include "apiserver/access/node_reach.h"

#include "api/kinds/block_kinds.h"
#include "apiserver/api_fixture.h"
#include "apiserver/formats/object_text.h"

namespace berth::apiserver {
namespace {

class NodeReachTest : public ApiTest {
 protected:
  void MakePod(const std::string& name, const std::string& node, const Json& volumes) {
    Json pod = PodNamed(name);
    if (!node.empty()) pod["spec"]["nodeName"] = node;
    pod["spec"]["volumes"] = volumes;
    const auto made = Post(kPods, pod);
    ASSERT_EQ(made.code, 201) << made.body;
  }
  static Json SecretVolume(const std::string& name) {
    return Json::array({{{"name", "v"}, {"secret", {{"secretName", name}}}}});
  }
  static Json ClaimVolume(const std::string& name) {
    return Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", name}}}}});
  }
};

TEST_F(NodeReachTest, FollowsPodsAsTheyComeAndGo) {
  NodeReach reach(*store_);
  const auto reaches = [&](const char* node, const char* secret) {
    return reach.Reaches(api::NodeName(node), "", "secrets", "default", secret);
  };
  MakePod("before", "a", SecretVolume("s1"));
  EXPECT_TRUE(reaches("a", "s1"));
  EXPECT_FALSE(reaches("b", "s1"));
  EXPECT_FALSE(reach.Reaches(api::NodeName("a"), "", "secrets", "other", "s1"));
  EXPECT_FALSE(reach.Reaches(api::NodeName("a"), "", "configmaps", "default", "s1"));
  // What was acknowledged is known at once, each time.
  for (int i = 0; i < 50; ++i) {
    const std::string name = fmt::format("late-{}", i);
    MakePod(name, "a", SecretVolume(name));
    EXPECT_TRUE(reaches("a", name.c_str())) << i;
  }
  MakePod("unbound", "", SecretVolume("s2"));
  EXPECT_FALSE(reaches("a", "s2"));
  ASSERT_EQ(Post(At(kPods, "unbound") + "/binding", {{"metadata", {{"name", "unbound"}}},
                                                     {"target", {{"kind", "Node"}, {"name", "a"}}}})
                .code,
            201);
  EXPECT_TRUE(reaches("a", "s2"));
  ASSERT_EQ(Delete(At(kPods, "before"), {{"gracePeriodSeconds", 0}}).code, 200);
  // What ended is known once the store has told of it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (reaches("a", "s1") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(reaches("a", "s1"));
}

class ClusterSecretTest : public NodeReachTest {
 protected:
  void SetUp() override {
    NodeReachTest::SetUp();
    Put(api::kinds::kStorageCluster, "images",
        {{"spec", {{"backend", {{"images", {{"folder", "/srv"}}}}}}}});
    for (const char* name : {"ceph", "other"}) {
      Put(api::kinds::kStorageCluster, name,
          {{"spec",
            {{"backend",
              {{"rbd", {{"secretRef", {{"name", name}, {"namespace", "berth-block"}}}}}}}}}});
    }
  }
  void Put(const api::KindInfo& kind, const std::string& name, const Json& more) {
    Json object = {{"apiVersion", kind.api_version()},
                   {"kind", std::string(kind.kind)},
                   {"metadata", {{"name", name}, {"uid", "uid-" + name}}}};
    object.merge_patch(more);
    ASSERT_TRUE(
        store_->Apply({.key = ObjectStoreKey(kind, "", name), .value = base::json::Dump(object)})
            .ok());
  }
  bool Reads(const std::string& node, const std::string& secret = "ceph",
             const std::string& ns = "berth-block") {
    return reach().IsSecretOfCluster(api::NodeName(node), ns, secret);
  }
  NodeReach& reach() {
    if (reach_ == nullptr) reach_ = std::make_unique<NodeReach>(*store_);
    return *reach_;
  }
  void TearDown() override {
    reach_ = nullptr;
    NodeReachTest::TearDown();
  }

 private:
  std::unique_ptr<NodeReach> reach_;
};

TEST_F(ClusterSecretTest, ANodeWithoutAVolumeOfTheStorageReadsNone) {
  EXPECT_FALSE(Reads("a"));
  EXPECT_FALSE(Reads("a", "absent"));
  EXPECT_FALSE(Reads("", ""));
}

TEST_F(ClusterSecretTest, ANodeReadsThatOfAVolumeThatItsPodUses) {
  EXPECT_FALSE(Reads("a"));
  const auto claim = Post(kClaims, ClaimNamed("c"));
  ASSERT_EQ(claim.code, 201) << claim.body;
  const Json pv = {
      {"metadata", {{"name", "pv"}}},
      {"spec",
       {{"capacity", {{"storage", "1Gi"}}},
        {"accessModes", {"ReadWriteOnce"}},
        {"claimRef",
         {{"namespace", "default"}, {"name", "c"}, {"uid", claim.json["metadata"]["uid"]}}},
        {"flexVolume",
         {{"driver", "berth.dev/block"}, {"options", {{"cluster", "ceph"}, {"image", "i"}}}}}}}};
  ASSERT_EQ(Post("/api/v1/persistentvolumes", pv).code, 201);
  ASSERT_EQ(Patch(At(kClaims, "c"), {{"spec", {{"volumeName", "pv"}}}}).code, 200);
  MakePod("web", "a", ClaimVolume("c"));
  EXPECT_TRUE(Reads("a"));
  EXPECT_FALSE(Reads("b"));
  EXPECT_FALSE(Reads("a", "other"));
  EXPECT_FALSE(Reads("a", "ceph", "kube-system"));
}

TEST_F(ClusterSecretTest, ANodeReadsThatOfAVolumeThatItHasOrOwes) {
  const Json entry = {{"node", "a"},   {"podNamespace", "default"}, {"pod", "web"},
                      {"podUID", "u"}, {"mountDir", "/m"},          {"clusterName", "ceph"}};
  Put(api::kinds::kVolumeFence, "pv", {{"attachments", Json::array({entry})}});
  EXPECT_TRUE(Reads("a"));
  EXPECT_FALSE(Reads("b"));
  EXPECT_FALSE(Reads("a", "other"));
  Put(api::kinds::kNodeCleanup, "b",
      {{"entries",
        Json::array({Json{{"volume", "pv"}, {"clusterName", "ceph"}, {"attachment", entry}}})}});
  EXPECT_TRUE(Reads("b"));
  EXPECT_FALSE(Reads("c"));
}

TEST_F(NodeReachTest, FollowsClaimsToVolumesAndTheirSecrets) {
  const auto claim = Post(kClaims, ClaimNamed("c"));
  ASSERT_EQ(claim.code, 201) << claim.body;
  const Json pv = {
      {"metadata", {{"name", "pv"}}},
      {"spec",
       {{"capacity", {{"storage", "1Gi"}}},
        {"accessModes", {"ReadWriteOnce"}},
        {"claimRef",
         {{"namespace", "default"}, {"name", "c"}, {"uid", claim.json["metadata"]["uid"]}}},
        {"csi",
         {{"driver", "d"},
          {"volumeHandle", "h"},
          {"nodeStageSecretRef", {{"name", "stage"}, {"namespace", "vault"}}},
          {"controllerPublishSecretRef", {{"name", "control"}, {"namespace", "vault"}}}}}}}};
  ASSERT_EQ(Post("/api/v1/persistentvolumes", pv).code, 201);
  ASSERT_EQ(Patch(At(kClaims, "c"), {{"spec", {{"volumeName", "pv"}}}}).code, 200);
  MakePod("p", "a", ClaimVolume("c"));
  NodeReach reach(*store_);
  EXPECT_TRUE(reach.Reaches(api::NodeName("a"), "", "persistentvolumeclaims", "default", "c"));
  EXPECT_TRUE(reach.Reaches(api::NodeName("a"), "", "persistentvolumes", "", "pv"));
  EXPECT_TRUE(reach.Reaches(api::NodeName("a"), "", "secrets", "vault", "stage"));
  EXPECT_FALSE(reach.Reaches(api::NodeName("a"), "", "secrets", "vault", "control"));
  EXPECT_FALSE(reach.Reaches(api::NodeName("a"), "", "secrets", "default", "stage"));
  for (const char* resource : {"persistentvolumes", "persistentvolumeclaims", "secrets"}) {
    EXPECT_FALSE(reach.Reaches(api::NodeName("b"), "", resource,
                               resource[0] == 's' ? "vault" : "default",
                               resource[0] == 's' ? "stage" : "c"))
        << resource;
  }
  EXPECT_FALSE(reach.Reaches(api::NodeName("b"), "", "persistentvolumes", "", "pv"));
}

TEST_F(NodeReachTest, FollowsVolumesToWhatTheirMountsNeed) {
  struct Case {
    std::string_view source;
    std::string_view resource, ns, name;
  };
  const Case cases[] = {
      {R"({"glusterfs":{"endpoints":"e","path":"v"}})", "endpoints", "default", "e"},
      {R"({"glusterfs":{"endpoints":"e","path":"v","endpointsNamespace":"stores"}})", "endpoints",
       "stores", "e"},
      {R"({"cephfs":{"monitors":["m"],"secretRef":{"name":"s"}}})", "secrets", "default", "s"},
      {R"({"cephfs":{"monitors":["m"],"secretRef":{"name":"s","namespace":"vault"}}})", "secrets",
       "vault", "s"},
      {R"({"rbd":{"monitors":["m"],"image":"i","secretRef":{"name":"s"}}})", "secrets", "default",
       "s"},
      {R"({"iscsi":{"targetPortal":"p","iqn":"iqn.2026-01.x:y","lun":1,
                    "secretRef":{"name":"s","namespace":"vault"}}})",
       "secrets", "vault", "s"},
  };
  for (int i = 0; const Case& one : cases) {
    const std::string pv_name = fmt::format("pv-{}", i), claim_name = fmt::format("c-{}", i);
    const std::string node = fmt::format("node-{}", i++);
    const auto claim = Post(kClaims, ClaimNamed(claim_name));
    ASSERT_EQ(claim.code, 201) << claim.body;
    Json pv = {{"metadata", {{"name", pv_name}}}, {"spec", base::json::Parse(one.source).value()}};
    pv["spec"]["capacity"] = {{"storage", "1Gi"}};
    pv["spec"]["accessModes"] = {"ReadWriteMany"};
    pv["spec"]["claimRef"] = {
        {"namespace", "default"}, {"name", claim_name}, {"uid", claim.json["metadata"]["uid"]}};
    const auto made = Post("/api/v1/persistentvolumes", pv);
    ASSERT_EQ(made.code, 201) << made.body;
    ASSERT_EQ(Patch(At(kClaims, claim_name), {{"spec", {{"volumeName", pv_name}}}}).code, 200);
    MakePod(fmt::format("p-{}", node), node, ClaimVolume(claim_name));
    NodeReach reach(*store_);
    EXPECT_TRUE(reach.Reaches(api::NodeName(node), "", one.resource, one.ns, one.name))
        << one.source;
    EXPECT_FALSE(reach.Reaches(api::NodeName(node), "", one.resource, "other", one.name))
        << one.source;
    EXPECT_FALSE(reach.Reaches(api::NodeName(node), "", one.resource, one.ns, "other"))
        << one.source;
    EXPECT_FALSE(reach.Reaches(api::NodeName("elsewhere"), "", one.resource, one.ns, one.name))
        << one.source;
  }
}

}  // namespace
}  // namespace berth::apiserver
