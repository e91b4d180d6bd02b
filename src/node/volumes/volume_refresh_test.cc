#include "node/volumes/volume_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/workers/fake_thread_limit.h"
#include "kube/fake_client.h"

namespace berth::node {
namespace {

std::vector<WatchedObject> ConfigMaps(const std::string& prefix, int count) {
  std::vector<WatchedObject> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(
        {.kind = &api::kinds::kConfigMap, .ns = "n", .name = fmt::format("{}{}", prefix, i)});
  }
  return out;
}

TEST(ObjectWatchesTest, AVolumeThatShowsThousandsOfObjectsGetsFewWatches) {
  kube::FakeClient client;
  ObjectWatches watches(client, [](const std::string&) {});
  watches.Set("a", ConfigMaps("m", 1000));
  EXPECT_EQ(watches.Count(), 16u);
  watches.Set("b", ConfigMaps("m", 16));  // volumes share watches
  for (int i = 0; i < 100; ++i)
    watches.Set(fmt::format("c{}", i), ConfigMaps(fmt::to_string(i), 4));
  EXPECT_EQ(watches.Count(), 256u);
  watches.Clear("a");
  for (int i = 0; i < 100; ++i) watches.Clear(fmt::format("c{}", i));
  watches.Clear("b");
  EXPECT_EQ(watches.Count(), 0u);
}

TEST(ObjectWatchesTest, AChangeOfAnObjectReachesItsVolumes) {
  kube::FakeClient client;
  std::atomic<int> changes{0};
  ObjectWatches watches(client, [&](const std::string& owner) { changes += owner == "a"; });
  watches.Set("a", ConfigMaps("m", 1));
  ASSERT_TRUE(client.WaitForWatches(api::kinds::kConfigMap, 1));
  client.Add({{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata", {{"name", "m0"}, {"namespace", "n"}}}});
  EXPECT_TRUE(client.WaitUntil([&] { return changes > 0; }));
}

// The volume's content is compared every minute all the same.
TEST(ObjectWatchesTest, WithoutAThreadForAWatchTheAgentGoesOn) {
  kube::FakeClient client;
  ObjectWatches watches(client, [](const std::string&) {});
  {
    const base::NoRoomForThreads full;
    watches.Set("a", ConfigMaps("m", 2));
  }
  EXPECT_EQ(watches.Count(), 0u);
  watches.Set("a", ConfigMaps("m", 2));
  EXPECT_EQ(watches.Count(), 2u);
}

}  // namespace
}  // namespace berth::node
