#include "standalone/local_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace berth::standalone {
namespace {

using testing::HasSubstr;

TEST(LocalNodeOptionsTest, WhatIsEmptyIsInTheDataFolder) {
  const auto options = CompleteOptions({.data_folder = "/srv/./berth", .node_name = "n1"});
  ASSERT_TRUE(options.ok()) << base::ToString(options.status());
  const std::string data = "/srv/berth";
  EXPECT_EQ(options->data_folder, data);
  EXPECT_EQ(options->node_name, "n1");
  EXPECT_EQ(options->node_sockets, data + "/run/nodes");
  EXPECT_EQ(options->utility_socket, data + "/run/utilities.sock");
  EXPECT_EQ(options->pool_folder, data + "/pool");
  EXPECT_EQ(options->volume_plugin_folder, data + "/volume-plugins");
}

TEST(LocalNodeOptionsTest, GivenPathsStayAndBecomeAbsolute) {
  const auto options = CompleteOptions({.data_folder = "data/../berth",
                                        .node_name = "n1",
                                        .node_sockets = "/a/nodes",
                                        .utility_socket = "u.sock",
                                        .pool_folder = "/b/./pool",
                                        .volume_plugin_folder = "/c/plugins"});
  ASSERT_TRUE(options.ok()) << base::ToString(options.status());
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(options->data_folder, here + "/berth");
  EXPECT_EQ(options->node_sockets, "/a/nodes");
  EXPECT_EQ(options->utility_socket, here + "/u.sock");
  EXPECT_EQ(options->pool_folder, "/b/pool");
  EXPECT_EQ(options->volume_plugin_folder, "/c/plugins");
}

TEST(LocalNodeOptionsTest, ANameThatNoNodeCanHaveIsRefused) {
  const auto options = CompleteOptions({.data_folder = "/srv/berth", .node_name = "Node_1"});
  EXPECT_EQ(options.status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_THAT(base::ToString(options.status()), HasSubstr("the node's name"));
}

TEST(LocalNodeOptionsTest, ADataFolderWhoseSocketsWouldHaveTooLongPathsIsRefused) {
  // A socket's path has at most 107 bytes.
  const auto fits =
      CompleteOptions({.data_folder = "/srv/" + std::string(20, 'd'), .node_name = "n"});
  EXPECT_TRUE(fits.ok()) << base::ToString(fits.status());
  const auto too_long =
      CompleteOptions({.data_folder = "/srv/" + std::string(100, 'd'), .node_name = "n"});
  EXPECT_EQ(too_long.status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_THAT(base::ToString(too_long.status()), HasSubstr("too long by"));
}

}  // namespace
}  // namespace berth::standalone
