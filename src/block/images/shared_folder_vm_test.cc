// Two nodes and an NFS server, each a machine of its own. tests/vm/test_shared_folder.py starts
// them, and runs one of these tests on each node: one writes to an image until it is shut out, the
// other one takes the image over. They wait for each other by files in STEPS, which is on the
// server, too.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "block/backend.h"
#include "block/sizes.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::HasSubstr;

constexpr char kLife[] = "0b5c6a2e-3a0c-4f3e-9d7c-1f6f2c6a7e11";
constexpr char kImage[] = "pvc-1";
constexpr size_t kBlock = 4096, kBlocks = 16;

std::string Setting(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

class SharedFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.empty()) GTEST_SKIP() << "skipped: only tests/vm/test_shared_folder.py runs this";
    auto opened = OpenBackend(
        {{"images", {{"folder", folder_}}}},
        {.exec = *exec_, .mounter = *mounter_, .proxy_socket = "", .node = Setting("NODE")});
    ASSERT_OK(opened);
    backend_ = *std::move(opened);
  }
  void TearDown() override {
    if (backend_ == nullptr) return;
    const auto mappings = backend_->ListMappings();
    if (!mappings.ok()) return;
    for (const Mapping& mapping : *mappings) {
      static_cast<void>(backend_->ForceUnmap(mapping, std::chrono::seconds(5)));
    }
  }

  void PrintLine(const std::string& what) const {
    printf("%s\n", what.c_str());
    fflush(stdout);
  }
  void ReportStep(const std::string& step) const {
    std::ofstream(steps_ + "/" + step) << "x";
    PrintLine("told: " + step);
  }
  bool IsTold(const std::string& step) const {
    return access((steps_ + "/" + step).c_str(), F_OK) == 0;
  }
  bool Wait(const std::string& what, const std::function<bool()>& done) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (!done()) {
      if (IsTold("failed") || std::chrono::steady_clock::now() > deadline) {
        PrintLine("waited in vain for " + what);
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  bool WaitTold(const std::string& step) const {
    return Wait(step, [&] { return IsTold(step); });
  }

  // Writes "WHO NUMBER" into a block of the device, past all caches.
  bool WriteBlock(int device, const std::string& who, size_t number) {
    memset(block_, ' ', sizeof block_);
    const std::string text = fmt::format("{} {}", who, number);
    memcpy(block_, text.data(), text.size());
    const auto at = static_cast<off_t>(number % kBlocks * kBlock);
    return pwrite(device, block_, kBlock, at) == kBlock && fsync(device) == 0;
  }
  std::string ReadBlock(int device, size_t number) {
    const auto at = static_cast<off_t>(number % kBlocks * kBlock);
    if (pread(device, block_, kBlock, at) != kBlock) return "error";
    return std::string(block_, 64);
  }

  const std::string folder_ = Setting("FOLDER"), steps_ = Setting("STEPS");
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<Backend> backend_;
  alignas(4096) char block_[kBlock];
};

TEST_F(SharedFolderTest, OneNodeWritesUntilItIsShutOut) {
  ASSERT_OK(backend_->ExchangeLocks(kLife));
  ASSERT_OK(backend_->Create({.name = kImage, .size_bytes = 16 * kMiB}));
  const auto mapping = backend_->Map(kImage, {});
  ASSERT_OK(mapping);
  const base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  ASSERT_TRUE(device.valid());
  size_t written = 0;
  for (; WriteBlock(device.get(), "one", written); ++written) {
    if (written == kBlocks) ReportStep("one-wrote");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GT(written, kBlocks);
  EXPECT_FALSE(WriteBlock(device.get(), "one", written + 1)) << "its lock is lost for good";
  ReportStep("one-was-shut-out");
}

TEST_F(SharedFolderTest, TheOtherNodeTakesTheImageOver) {
  const api::NodeName one("one");
  ASSERT_OK(backend_->ExchangeLocks(kLife));
  ASSERT_TRUE(WaitTold("one-wrote"));
  ASSERT_TRUE(*backend_->HasLock(kImage)) << "the lock of the other node is not seen";
  const auto refused = backend_->Map(kImage, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused.status())), HasSubstr("locked by another holder"));
  ASSERT_OK(backend_->ExchangeLocks(kLife));
  ASSERT_OK(backend_->ProveLocks(kLife, one));
  EXPECT_EQ(backend_->ProveLocks(kLife, api::NodeName("three")).code(),
            StatusCode::kFailedPrecondition);
  ReportStep("two-saw-one");
  // The server forgets the lock of a node that it no longer hears.
  ASSERT_TRUE(Wait("the end of the lock", [&] {
    const auto locked = backend_->HasLock(kImage);
    return locked.ok() && !*locked;
  }));
  ASSERT_OK(backend_->ProveLocks(kLife, one));
  base::StatusOr<Mapping> mapping;
  ASSERT_TRUE(Wait("the image", [&] {
    mapping = backend_->Map(kImage, {});
    return mapping.ok();
  }));
  const base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  ASSERT_TRUE(device.valid());
  for (size_t i = 0; i < kBlocks; ++i) EXPECT_THAT(ReadBlock(device.get(), i), HasSubstr("one "));
  for (size_t i = 0; i < kBlocks; ++i) ASSERT_TRUE(WriteBlock(device.get(), "two", i));
  ReportStep("two-took-over");
  if (Setting("RETURNS") == "yes") ASSERT_TRUE(WaitTold("one-was-shut-out"));
  for (size_t i = 0; i < kBlocks; ++i) EXPECT_THAT(ReadBlock(device.get(), i), HasSubstr("two "));
}

// Where locks stay on the node.
TEST_F(SharedFolderTest, AMountThatKeepsLocksToItselfIsRefused) {
  for (const base::Status& refused :
       {backend_->ExchangeLocks(kLife), backend_->List().status(),
        backend_->Create({.name = kImage, .size_bytes = 16 * kMiB}).status(),
        backend_->Map(kImage, {}).status(), backend_->Delete(kImage)}) {
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("no other node sees a lock"));
  }
  EXPECT_EQ(backend_->ProveLocks(kLife, api::NodeName("one")).code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace berth::block
