#include "standalone/block_agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "kube/config.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::standalone {
namespace {

using testing::ElementsAre;

ino_t InodeOf(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

TEST(BlockAgentPodsTest, ThereAreDaemonSetsOnlyWithAnImage) {
  BlockAgentPods pods{.data_folder = "/srv/berth", .node_name = "n1", .volume_plugin_folder = "/p"};
  EXPECT_FALSE(MakeBlockAgentOptions(pods).deploy);
  pods.image = "registry/berth:1";
  const auto options = MakeBlockAgentOptions(pods);
  EXPECT_TRUE(options.deploy);
  EXPECT_FALSE(options.install);
  EXPECT_EQ(options.image, "registry/berth:1");
  EXPECT_EQ(options.kubelet_folder, "/srv/berth/kubelet");
  EXPECT_THAT(
      options.agent_flags,
      ElementsAre("--kubeconfig=/host/srv/berth/block-agent.kubeconfig", "--volume-plugin-dir=/p"));
}

TEST(BlockAgentPodsTest, TheKubeconfigLeadsToTheSocketAsTheNodesAgent) {
  const platform::TempFolder data;
  ASSERT_TRUE(WriteBlockAgentKubeconfig({.data_folder = data.path(), .node_name = "n1"}).ok());
  const std::string path = data / "block-agent.kubeconfig";
  struct stat found = {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600);

  const auto config = kube::LoadKubeconfig(path);
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  EXPECT_EQ(config->socket, "/host" + data.path() + "/api.sock");
  EXPECT_EQ(config->impersonate_user, "berth.dev:block-agent:n1");
  EXPECT_THAT(config->impersonate_groups, ElementsAre("berth.dev:block-agents"));
}

TEST(BlockAgentPodsTest, TheKubeconfigIsReplacedOnlyWhenItChanges) {
  const platform::TempFolder data;
  const std::string path = data / "block-agent.kubeconfig";
  ASSERT_TRUE(WriteBlockAgentKubeconfig({.data_folder = data.path(), .node_name = "n1"}).ok());
  const ino_t first = InodeOf(path);
  ASSERT_TRUE(WriteBlockAgentKubeconfig({.data_folder = data.path(), .node_name = "n1"}).ok());
  EXPECT_EQ(InodeOf(path), first);

  ASSERT_TRUE(WriteBlockAgentKubeconfig({.data_folder = data.path(), .node_name = "n2"}).ok());
  const auto config = kube::LoadKubeconfig(path);
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  EXPECT_EQ(config->impersonate_user, "berth.dev:block-agent:n2");
  // Nothing but the kubeconfig is left in the folder.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(data.path()), {}), 1);
}

}  // namespace
}  // namespace berth::standalone
