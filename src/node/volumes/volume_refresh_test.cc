#include "node/volumes/volume_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

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

// Lets no thread start: its stack would be larger than those that glibc keeps of ended threads, and
// the address space has no room for it.
class NoRoomForThreads {
 public:
  NoRoomForThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t large = before_;
    EXPECT_EQ(pthread_attr_setstacksize(&large, 64 << 20), 0);
    EXPECT_EQ(pthread_setattr_default_np(&large), 0);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &limit_), 0);
    const rlimit full{.rlim_cur = pages * static_cast<size_t>(getpagesize()) + (16 << 20),
                      .rlim_max = limit_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &full), 0);
  }
  ~NoRoomForThreads() {
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit_), 0);
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
  }

 private:
  pthread_attr_t before_{};
  rlimit limit_{};
};

// The volume's content is compared every minute all the same.
TEST(ObjectWatchesTest, WithoutAThreadForAWatchTheAgentGoesOn) {
  kube::FakeClient client;
  ObjectWatches watches(client, [](const std::string&) {});
  {
    const NoRoomForThreads full;
    watches.Set("a", ConfigMaps("m", 2));
  }
  EXPECT_EQ(watches.Count(), 0u);
  watches.Set("a", ConfigMaps("m", 2));
  EXPECT_EQ(watches.Count(), 2u);
}

}  // namespace
}  // namespace berth::node
