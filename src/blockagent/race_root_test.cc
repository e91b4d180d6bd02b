// Twenty nodes' agents want one ReadWriteOnce volume a thousand times, each with a device, a mount
// and records of its own. The witness is a block of the image, which each holder reads and writes
// past all caches through its own device: it says who holds it, and counts. Some agents die while
// they hold it; some pods are forced out of the API, with their nodes' leases expired, so that
// the fence stands by the image's lock alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <semaphore>
#include <thread>

#include "blockagent/fake_site.h"
#include "platform/errno.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using testing::IsEmpty;

constexpr int kAgents = 20;
// In each of eight parts, which have to end in time on a slow machine.
constexpr uint64_t kHolds = 125;
// So many who were refused try again at once; all of them would leave no time for those who hold.
constexpr int kRush = 3;
constexpr uint64_t kNobody = ~uint64_t{0};
constexpr size_t kBlock = 4096;
constexpr char kVolume[] = "pv-1";

// What the block says.
struct Witness {
  uint64_t holder = kNobody;
  uint64_t holds = 0;  // so far
};

// A block of a mapped device, by direct I/O.
class WitnessBlock {
 public:
  // The block of a file in the mount, which is made if it is not there.
  static StatusOr<std::unique_ptr<WitnessBlock>> Open(const std::string& mount,
                                                      const std::string& device) {
    const std::string path = mount + "/witness";
    const base::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.valid()) return platform::ErrnoError(errno, "open " + path);
    if (lseek(file.get(), 0, SEEK_END) == 0) {
      const std::vector<char> fresh = Bytes({});
      if (write(file.get(), fresh.data(), fresh.size()) != static_cast<ssize_t>(fresh.size()) ||
          fsync(file.get()) != 0) {
        return platform::ErrnoError(errno, "write " + path);
      }
    }
    int block = 0;
    int block_size = 0;
    if (ioctl(file.get(), FIBMAP, &block) != 0 || ioctl(file.get(), FIGETBSZ, &block_size) != 0) {
      return platform::ErrnoError(errno, "find the block of " + path);
    }
    if (block == 0 || block_size != static_cast<int>(kBlock)) {
      return Error(StatusCode::kInternal, "{} is block {} of {} bytes", path, block, block_size);
    }
    base::UniqueFd direct(open(device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!direct.valid()) return platform::ErrnoError(errno, "open " + device);
    return std::unique_ptr<WitnessBlock>(
        new WitnessBlock(std::move(direct), static_cast<off_t>(block) * block_size));
  }

  StatusOr<Witness> Read() {
    if (pread(device_.get(), buffer_, kBlock, offset_) != static_cast<ssize_t>(kBlock)) {
      return platform::ErrnoError(errno, "read the witness");
    }
    Witness witness;
    std::memcpy(&witness, buffer_, sizeof witness);
    return witness;
  }
  Status Write(const Witness& witness) {
    const std::vector<char> bytes = Bytes(witness);
    std::memcpy(buffer_, bytes.data(), kBlock);
    if (pwrite(device_.get(), buffer_, kBlock, offset_) != static_cast<ssize_t>(kBlock)) {
      return platform::ErrnoError(errno, "write the witness");
    }
    return base::OkStatus();
  }

 private:
  WitnessBlock(base::UniqueFd device, off_t offset) : device_(std::move(device)), offset_(offset) {}
  static std::vector<char> Bytes(const Witness& witness) {
    std::vector<char> bytes(kBlock);
    std::memcpy(bytes.data(), &witness, sizeof witness);
    return bytes;
  }

  const base::UniqueFd device_;
  const off_t offset_;
  alignas(kBlock) char buffer_[kBlock] = {};
};

class RaceTest : public testing::TestWithParam<unsigned> {
 protected:
  // Ends the race: one failure is told, and not a thousand.
  void Fail(uint64_t agent, const std::string& what) {
    if (!failed_.exchange(true)) ADD_FAILURE() << "n" << agent << ": " << what;
  }
  bool Is(uint64_t agent, const Status& status, std::string_view what) {
    if (!status.ok()) Fail(agent, fmt::format("{}: {}", what, base::ToString(status)));
    return status.ok();
  }

  // What an agent does with the volume while it holds the volume.
  void HoldVolume(uint64_t agent, const Attachments& attachments, const MountCall& call) {
    if (const int others = holders_.fetch_add(1); others != 0) {
      Fail(agent, fmt::format("{} others hold the volume, too", others));
    }
    Witnessed(agent, attachments, call);
    holders_.fetch_sub(1);
  }
  void Witnessed(uint64_t agent, const Attachments& attachments, const MountCall& call) {
    const auto record = attachments.Find(kVolume);
    if (!record.has_value() || !record->mapping.has_value()) {
      return Fail(agent, "it is mounted without a record");
    }
    const auto fence = site_.Fence(kVolume);
    if (fence.size() != 1 || fence[0].pod_uid != call.pod_uid) {
      return Fail(agent, fmt::format("the fence has {} entries while it holds the volume: {}",
                                     fence.size(), fence.empty() ? "" : Describe(fence[0])));
    }
    auto block = WitnessBlock::Open(call.mount_dir, record->mapping->device);
    if (!Is(agent, block.status(), "the witness")) return;
    const auto before = (*block)->Read();
    if (!Is(agent, before.status(), "the witness")) return;
    if (before->holder != kNobody) {
      return Fail(agent, fmt::format("n{} holds the volume, too, says the device", before->holder));
    }
    const Witness own{.holder = agent, .holds = before->holds + 1};
    if (!Is(agent, (*block)->Write(own), "the witness")) return;
    for (int i = 0; i < 5; ++i) {
      std::this_thread::yield();
      const auto now = (*block)->Read();
      if (!Is(agent, now.status(), "the witness")) return;
      if (now->holder != own.holder || now->holds != own.holds) {
        return Fail(agent, fmt::format("n{} wrote to the device meanwhile", now->holder));
      }
    }
    if (!Is(agent, (*block)->Write({.holder = kNobody, .holds = own.holds}), "the witness")) return;
    held_.store(own.holds);
  }

  // One agent's life, until all have had enough.
  void Run(uint64_t agent) {
    const std::string node = fmt::format("n{}", agent);
    std::mt19937 random(GetParam() * kAgents + static_cast<unsigned>(agent));
    auto attachments = Start(node);
    while (held_.load() < kHolds && !failed_.load()) {
      const MountCall call = site_.AddPod(node, "pod-of-" + node, kVolume);
      Status mounted = attachments->Mount(call, FakeSite::Soon());
      while (!mounted.ok() && held_.load() < kHolds && !failed_.load()) {
        if (mounted.code() != StatusCode::kFailedPrecondition &&
            mounted.code() != StatusCode::kAborted) {
          return Fail(agent, base::ToString(mounted));
        }
        refused_.fetch_add(1);
        static_cast<void>(rush_.try_acquire_for(std::chrono::milliseconds(200 + random() % 800)));
        mounted = attachments->Mount(call, FakeSite::Soon());
      }
      if (mounted.ok()) {
        HoldVolume(agent, *attachments, call);
        switch (random() % 8) {
          case 0:  // The agent dies, and the next one goes on.
            attachments = Start(node);
            if (!Is(agent, attachments->Mount(call, FakeSite::Soon()), "after a restart")) return;
            break;
          case 1:  // Its pod is forced out of the API: nothing but the image's lock keeps others
                   // off.
            site_.RemovePod("pod-of-" + node);
            WaitUntilAnotherIsRefused();
            StillMine(agent, *attachments, call);
            break;
          default:
            break;
        }
      }
      // Some come while it is taken off, and some once it is free.
      rush_.release(kRush);
      if (!Is(agent, UnmountUntilNotBusy(*attachments, call), "unmount")) return;
      rush_.release(kRush);
      std::filesystem::remove(call.mount_dir);
    }
  }
  // Repeats an unmount that was refused because the mount is busy, as the kubelet does. All agents
  // of this test are one process, so a child of another agent may briefly have a copy of the
  // descriptor through which the witness was read.
  static Status UnmountUntilNotBusy(Attachments& attachments, const MountCall& call) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (true) {
      const Status status = attachments.Unmount(call.mount_dir, FakeSite::Soon());
      const bool busy = base::ToString(status).find("Device or resource busy") != std::string::npos;
      if (!busy || std::chrono::steady_clock::now() > deadline) return status;
      std::this_thread::yield();
    }
  }
  // Lets others try, and returns when one was refused, or when the race is at its end.
  void WaitUntilAnotherIsRefused() {
    const uint64_t before = refused_.load();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    rush_.release(kRush);
    while (refused_.load() == before && held_.load() < kHolds && !failed_.load() &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Nobody has mapped the image who was told that the pod and its node are gone.
  void StillMine(uint64_t agent, const Attachments& attachments, const MountCall& call) {
    const auto record = attachments.Find(kVolume);
    auto block = WitnessBlock::Open(call.mount_dir, record->mapping->device);
    if (!Is(agent, block.status(), "the witness")) return;
    const auto now = (*block)->Read();
    if (!Is(agent, now.status(), "the witness")) return;
    if (now->holder != kNobody || holders_.load() != 0) {
      Fail(agent, "another got the volume while it was mounted here");
    }
  }
  std::unique_ptr<Attachments> Start(const std::string& node) {
    const base::MutexLock lock(mutex_);
    return site_.Start(node);
  }

  // Most of the time would be a disk's flushes.
  FakeSite site_{FakeSite::Disk::kMemory};
  base::Mutex mutex_;
  std::counting_semaphore<> rush_{0};  // those who were refused wait here, but not for long
  std::atomic<int> holders_{0};
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<bool> failed_{false};
};

TEST_P(RaceTest, TwentyAgentsNeverHoldOneVolumeTogether) {
  // There are no Node objects, and no node's Lease is waited for.
  site_.lease_time = std::chrono::milliseconds(0);
  site_.AddVolume(kVolume, 16);
  spdlog::set_level(spdlog::level::err);
  {
    std::vector<std::jthread> agents;
    for (uint64_t agent = 1; agent <= kAgents; ++agent) {
      agents.emplace_back([this, agent] { Run(agent); });
    }
  }
  spdlog::set_level(spdlog::level::info);
  EXPECT_GE(held_.load(), kHolds);
  // They did meet.
  EXPECT_GT(refused_.load(), kHolds / 2);
  EXPECT_THAT(site_.Fence(kVolume), IsEmpty());
  EXPECT_EQ(site_.Devices(kVolume), 0u);
  const auto told = site_.events.told();
  EXPECT_TRUE(std::ranges::any_of(told, [](const std::string& text) {
    return text.find("holds a lock of the image") != std::string::npos;
  })) << "no agent met the image's lock";
}
INSTANTIATE_TEST_SUITE_P(Parts, RaceTest, testing::Range(0u, 8u));

}  // namespace
}  // namespace berth::blockagent
