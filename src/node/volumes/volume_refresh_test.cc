#include "node/volumes/volume_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

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
  watches.WatchObjects("a", ConfigMaps("m", 1000));
  EXPECT_EQ(watches.CountObjects(), 16u);
  watches.WatchObjects("b", ConfigMaps("m", 16));  // volumes share watches
  for (int i = 0; i < 100; ++i)
    watches.WatchObjects(fmt::format("c{}", i), ConfigMaps(fmt::to_string(i), 4));
  EXPECT_EQ(watches.CountObjects(), 256u);
  watches.UnwatchObjects("a");
  for (int i = 0; i < 100; ++i) watches.UnwatchObjects(fmt::format("c{}", i));
  watches.UnwatchObjects("b");
  EXPECT_EQ(watches.CountObjects(), 0u);
}

// Runs `work` and returns how many lines it logs that contain `part`. The log of a test is on
// standard output.
int CountLogLines(const std::function<void()>& work, const std::string& part) {
  testing::internal::CaptureStdout();
  work();
  std::istringstream lines(testing::internal::GetCapturedStdout());
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(part) != line.npos;
  return count;
}

TEST(ObjectWatchesTest, TheLimitOfAllWatchesIsLoggedOnceUntilThereAreFewer) {
  kube::FakeClient client;
  ObjectWatches watches(client, [](const std::string&) {});
  for (int i = 0; i < 16; ++i) {
    watches.WatchObjects(fmt::format("c{}", i), ConfigMaps(fmt::format("{}-", i), 16));
  }
  ASSERT_EQ(watches.CountObjects(), ObjectWatches::kMaxWatches);
  const auto exceed = [&] {
    watches.WatchObjects("a", ConfigMaps("a", 2));
    watches.WatchObjects("b", ConfigMaps("b", 2));
  };
  EXPECT_EQ(CountLogLines(exceed, "configmap 'n/a0' of volume 'a'"), 1);
  EXPECT_EQ(CountLogLines(exceed, "is the limit"), 0);
  watches.UnwatchObjects("c0");
  watches.WatchObjects("c0", ConfigMaps("0-", 16));
  EXPECT_EQ(CountLogLines(exceed, "is the limit"), 1);
}

TEST(ObjectWatchesTest, AChangeOfAnObjectReachesItsVolumes) {
  kube::FakeClient client;
  std::atomic<int> changes{0};
  ObjectWatches watches(client, [&](const std::string& owner) { changes += owner == "a"; });
  watches.WatchObjects("a", ConfigMaps("m", 1));
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
    watches.WatchObjects("a", ConfigMaps("m", 2));
  }
  EXPECT_EQ(watches.CountObjects(), 0u);
  watches.WatchObjects("a", ConfigMaps("m", 2));
  EXPECT_EQ(watches.CountObjects(), 2u);
}

}  // namespace
}  // namespace berth::node
