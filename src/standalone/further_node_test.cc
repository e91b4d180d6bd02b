#include "standalone/further_node.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "platform/files/fake_temp_folder.h"

namespace berth::standalone {
namespace {

TEST(FurtherNodeTest, WithoutAKubeconfigItLeavesTheDataFolderAlone) {
  const platform::TempFolder temp;
  const auto ended = RunFurtherNode({.data_folder = temp / "data", .node_name = "n2"},
                                    temp / "no-kubeconfig", std::stop_token());
  EXPECT_EQ(ended.code(), base::StatusCode::kNotFound) << base::ToString(ended);
  EXPECT_FALSE(std::filesystem::exists(temp / "data"));
}

}  // namespace
}  // namespace berth::standalone
