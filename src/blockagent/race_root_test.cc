#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "blockagent/attachments.h"
#include "blockagent/fake_site.h"

namespace berth::blockagent {
namespace {

constexpr size_t kBlock = 4096;

// A block in the device, by direct I/O through the holder's own mapping: what another holder writes
// there is seen whatever is cached.
class Witness {
 public:
  explicit Witness(const std::string& mount_dir)
      : fd_(open((mount_dir + "/witness").c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600)),
        block_(static_cast<char*>(aligned_alloc(kBlock, kBlock)), free) {}

  bool Write(uint64_t id) {
    memset(block_.get(), 0, kBlock);
    memcpy(block_.get(), &id, sizeof(id));
    return pwrite(fd_.get(), block_.get(), kBlock, 0) == kBlock && fsync(fd_.get()) == 0;
  }
  uint64_t Read() {
    uint64_t id = 0;
    if (pread(fd_.get(), block_.get(), kBlock, 0) != kBlock) return 0;
    memcpy(&id, block_.get(), sizeof(id));
    return id;
  }

 private:
  base::UniqueFd fd_;
  std::unique_ptr<char, decltype(&free)> block_;
};

// Twenty agents want one volume for one pod, a thousand times and more. Without the fence
// the back end's lock would keep them apart: here it is asked too, and must never have to say no.
TEST(RaceTest, TwentyAgentsWantOneVolumeAThousandTimes) {
  constexpr int kAgents = 20, kWants = 1000, kFewest = 50;
  // How often it is to be had, as far as the time allows; the environment may want more of both.
  const char* more = getenv("BERTH_RACE_ROUNDS");
  const int rounds = more != nullptr ? atoi(more) : 200;
  const std::chrono::seconds time(more != nullptr ? 3600 : 60);
  FakeSite site(FakeSite::Disk::kMemory);
  site.AddVolume("pv-1", 16);
  std::atomic<int> holders{0}, had{0}, two_at_once{0}, foreign_writes{0}, locked{0}, wants{0};
  std::vector<std::unique_ptr<Attachments>> agents;
  for (int i = 0; i < kAgents; ++i) agents.push_back(site.Start(fmt::format("n{}", i)));
  spdlog::set_level(spdlog::level::err);
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kAgents; ++i) {
    threads.emplace_back([&, i] {
      const MountCall call = site.AddPod(fmt::format("n{}", i), fmt::format("pod-{}", i), "pv-1");
      uint64_t round = 0;
      while ((had < rounds || wants < kWants) && std::chrono::steady_clock::now() < end) {
        ++wants;
        const base::Status mounted = agents[i]->Mount(call, FakeSite::Soon());
        if (!mounted.ok()) {
          if (base::Message(mounted).find("map image") != std::string_view::npos) ++locked;
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          continue;
        }
        if (++holders != 1) ++two_at_once;
        {
          Witness witness(call.mount_dir);
          const uint64_t id = (static_cast<uint64_t>(i) << 32) + ++round;
          if (!witness.Write(id)) ++foreign_writes;
          for (int k = 0; k < 3; ++k) {
            std::this_thread::yield();
            if (witness.Read() != id) ++foreign_writes;
          }
        }
        ++had;
        --holders;
        const base::Status unmounted = agents[i]->Unmount(call.mount_dir, FakeSite::Soon());
        EXPECT_TRUE(unmounted.ok()) << unmounted;
      }
    });
  }
  threads.clear();
  spdlog::set_level(spdlog::level::info);
  EXPECT_EQ(two_at_once, 0);
  EXPECT_EQ(foreign_writes, 0);
  EXPECT_EQ(locked, 0) << "two were let in by the fence, and the image's lock stopped one";
  EXPECT_GE(wants, kWants);
  EXPECT_GE(had, kFewest);
  std::cout << "wanted " << wants << " times, had " << had << " times\n";
  EXPECT_TRUE(site.Fence("pv-1").empty());
  EXPECT_EQ(site.Devices("pv-1"), 0u);
}

}  // namespace
}  // namespace berth::blockagent
