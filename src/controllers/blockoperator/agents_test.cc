#include "controllers/blockoperator/agents.h"

#include "controllers/blockoperator/block_operator_fixture.h"
#include "controllers/definitions.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using Set = api::DaemonSet;

class AgentsTest : public BlockOperatorTest {
 protected:
  AgentsTest() {
    options_.agents = {.install = false,
                       .ns = "berth-block",
                       .image = "example.com/berth:1",
                       .node_selector = "disk=fast"};
  }
  Set GetSet(const std::string& name) { return cluster_.Get<Set>("berth-block", name); }
  bool WaitSets() {
    return cluster_.WaitUntil([&] {
      return cluster_.Has<Set>("berth-block", "berth-block-agent") &&
             cluster_.Has<Set>("berth-block", "berth-io-proxy");
    });
  }
};

TEST_F(AgentsTest, MakesTheAgentsAndTheirProxies) {
  Start();
  ASSERT_TRUE(WaitSets());
  EXPECT_TRUE(GetSet("berth-io-proxy").on_delete()) << "its life is that of the volumes";
  EXPECT_FALSE(GetSet("berth-block-agent").on_delete());
  for (const char* name : {"berth-block-agent", "berth-io-proxy"}) {
    const Json pod = GetSet(name).pod_template()["spec"];
    EXPECT_EQ(pod["containers"][0]["image"], "example.com/berth:1");
    EXPECT_EQ(pod["nodeSelector"], (Json{{"disk", "fast"}}));
    EXPECT_EQ(pod["containers"][0]["securityContext"]["privileged"], true);
  }
}

TEST_F(AgentsTest, BringsThemBackAndLetsFieldsBeThatItDoesNotHave) {
  Start();
  ASSERT_TRUE(WaitSets());
  Json changed = GetSet("berth-block-agent").json();
  changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/other:1";
  changed["spec"]["revisionHistoryLimit"] = 3;
  cluster_.Put(changed);
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return GetSet("berth-block-agent").pod_template()["spec"]["containers"][0]["image"] ==
           "example.com/berth:1";
  }));
  EXPECT_EQ(GetSet("berth-block-agent").revision_history_limit(), 3);
  cluster_.client.Remove(Set::kInfo, "berth-block", "berth-io-proxy");
  EXPECT_TRUE(WaitSets());
}

TEST_F(AgentsTest, LeavesOneThatAPersonTookOver) {
  Start();
  ASSERT_TRUE(WaitSets());
  Json changed = GetSet("berth-block-agent").json();
  changed["metadata"]["labels"][std::string(kManagedByProgram)] = "me";
  changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/mine:1";
  cluster_.Put(changed);
  cluster_.client.Remove(Set::kInfo, "berth-block", "berth-io-proxy");
  ASSERT_TRUE(WaitSets());  // it has looked at both
  EXPECT_EQ(GetSet("berth-block-agent").pod_template()["spec"]["containers"][0]["image"],
            "example.com/mine:1");
}

TEST_F(AgentsTest, TakesTheImageOfItsOwnPod) {
  options_.agents.image.clear();
  options_.agents.own_pod = "operator-1";
  Json pod = MakePod("operator-1", "");
  pod["metadata"]["namespace"] = "berth-block";
  pod["spec"]["containers"] = {{{"name", "berth"}, {"image", "example.com/berth:7"}}};
  cluster_.client.Add(pod);
  Start();
  ASSERT_TRUE(WaitSets());
  EXPECT_EQ(GetSet("berth-io-proxy").pod_template()["spec"]["containers"][0]["image"],
            "example.com/berth:7");
}

TEST_F(AgentsTest, InstallsTheKinds) {
  options_.agents.install = true;
  options_.agents.deploy = false;
  Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Has<api::CustomResourceDefinition>("", "volumefences.storage.berth.dev") &&
           cluster_.Has<api::CustomResourceDefinition>("", "nodecleanups.storage.berth.dev") &&
           cluster_.Has<api::CustomResourceDefinition>("", "storageclusters.storage.berth.dev");
  }));
}

TEST_F(AgentsTest, InstallsTheKindsOverThoseOfAnEarlierRelease) {
  options_.agents.install = true;
  options_.agents.deploy = false;
  Json earlier = {{"apiVersion", "apiextensions.k8s.io/v1"},
                  {"kind", "CustomResourceDefinition"},
                  {"metadata",
                   {{"name", "volumefences.storage.berth.dev"},
                    {"labels", {{std::string(kManagedByProgram), kBerth}}}}},
                  {"spec", {{"scope", "Namespaced"}}}};
  cluster_.client.Add(earlier);
  Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<api::CustomResourceDefinition>("", "volumefences.storage.berth.dev")
               .String({"spec", "scope"}) == "Cluster";
  }));
}

TEST(AgentSetTest, AKubeletsFolderIsAtTheSamePathInsideAndOutside) {
  for (const std::string_view manifest : AgentManifests()) {
    const auto set = AgentSet(manifest, {.ns = "x", .image = "y", .kubelet_folder = "/k/kubelet"});
    ASSERT_TRUE(set.ok()) << base::ToString(set.status());
    const std::string text = base::json::Dump(set->json());
    EXPECT_EQ(text.find("/var/lib/kubelet"), std::string::npos);
    if (set->name() != "berth-block-agent") continue;
    EXPECT_NE(text.find("--kubelet-dir=/k/kubelet"), std::string::npos);
    EXPECT_NE(text.find(R"("mountPath":"/k/kubelet")"), std::string::npos);
    EXPECT_NE(text.find(R"("path":"/k/kubelet")"), std::string::npos);
  }
}

TEST(AgentSetTest, FlagsAreTheAgentsAlone) {
  for (const std::string_view manifest : AgentManifests()) {
    const auto set =
        AgentSet(manifest, {.ns = "x", .image = "y", .agent_flags = {"--kubeconfig=/k"}});
    ASSERT_TRUE(set.ok()) << base::ToString(set.status());
    const bool has =
        base::json::Dump(set->json()).find(R"("--kubeconfig=/k")") != std::string::npos;
    EXPECT_EQ(has, set->name() == "berth-block-agent");
  }
}

TEST(AgentsCoversTest, ComparesWhatIsWantedAlone) {
  const Json wanted = {{"a", 1}, {"list", {{{"name", "x"}}}}};
  EXPECT_TRUE(Covers({{"a", 1}, {"b", 2}, {"list", {{{"name", "x"}, {"more", true}}}}}, wanted));
  EXPECT_FALSE(Covers({{"a", 2}, {"list", {{{"name", "x"}}}}}, wanted));
  EXPECT_FALSE(Covers({{"a", 1}, {"list", Json::array()}}, wanted));
  EXPECT_FALSE(Covers({{"list", {{{"name", "x"}}}}}, wanted));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
