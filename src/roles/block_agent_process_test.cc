#include "roles/block_agent_process.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "platform/files/fake_temp_folder.h"

namespace berth::roles {
namespace {

using testing::HasSubstr;

TEST(BlockAgentProcessTest, WithoutAKubeconfigItLeavesTheDataFolderAlone) {
  const platform::TempFolder temp;
  BlockAgentProcessOptions options{.kubeconfig = temp / "no-kubeconfig"};
  options.agent.node = "n1";
  options.agent.data_folder = temp / "data";
  options.agent.driver_executable = temp / "berth-flex";
  const auto process = BlockAgentProcess::Start(options);
  EXPECT_EQ(process.status().code(), base::StatusCode::kNotFound);
  EXPECT_THAT(base::ToString(process.status()), HasSubstr(temp / "no-kubeconfig"));
  EXPECT_FALSE(std::filesystem::exists(temp / "data"));
}

}  // namespace
}  // namespace berth::roles
