#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "base/assert_ok.h"
#include "blockexport/file_store.h"
#include "blockexport/served_volume_fixture.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::blockexport {
namespace {

constexpr size_t kUnits = 256;

// A transfer with memory of its own, and its outcome.
struct Background : Transfer {
  Background(bool writing, size_t unit, char fill) : block(kUnit) {
    std::fill_n(block.data(), kUnit, fill);
    writes = writing;
    offset = static_cast<int64_t>(unit * kUnit);
    data = {block.data(), kUnit};
    ended = [](Transfer& transfer, int error) {
      static_cast<Background&>(transfer).outcome.set_value(error);
    };
  }
  int Await() {
    auto future = outcome.get_future();
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return -1;
    return future.get();
  }
  std::string_view Text() const { return {block.data(), kUnit}; }

  Block block;
  std::promise<int> outcome;
};

class FileStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = FileStore::Open(base::UniqueFd(open(path_.c_str(), O_RDWR | O_CLOEXEC)), false);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  const platform::TempFolder folder_;
  const std::string path_ = folder_.SparseFile("image", kUnits* kUnit);
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileStoreTest, TransfersInTheBackgroundReadWhatOthersWrote) {
  std::deque<Background> writes;
  for (size_t unit = 0; unit < 48; ++unit) {
    writes.emplace_back(true, unit, static_cast<char>('a' + unit % 26));
    ASSERT_TRUE(store_->Begin(writes.back()));
  }
  for (Background& write : writes) EXPECT_EQ(write.Await(), 0);
  std::deque<Background> reads;
  for (size_t unit = 0; unit < 48; ++unit) {
    reads.emplace_back(false, unit, '-');
    ASSERT_TRUE(store_->Begin(reads.back()));
  }
  for (size_t unit = 0; unit < 48; ++unit) {
    EXPECT_EQ(reads[unit].Await(), 0);
    EXPECT_EQ(reads[unit].Text(), std::string(kUnit, static_cast<char>('a' + unit % 26)));
  }
}

TEST_F(FileStoreTest, ATransferOfAFileThatBecameShorterFails) {
  ASSERT_EQ(truncate(path_.c_str(), kUnit), 0);
  Background read(false, 8, '-');
  ASSERT_TRUE(store_->Begin(read));
  EXPECT_EQ(read.Await(), EIO);
}

TEST_F(FileStoreTest, WhatIsNotAlignedIsLeftToTheCaller) {
  Background part(true, 0, 'a');
  part.data = part.data.first(512);
  EXPECT_FALSE(store_->Begin(part));
}

TEST_F(FileStoreTest, AWriteOfAPartOfAUnitKeepsWhatATransferWritesThere) {
  for (size_t unit = 0; unit < kUnits; ++unit) {
    Background whole(true, unit, 'a');
    ASSERT_TRUE(store_->Begin(whole));
    const std::string part(100, 'b');
    ASSERT_EQ(store_->Write(static_cast<int64_t>(unit * kUnit + 10), part), 0);
    ASSERT_EQ(whole.Await(), 0);
    Block read(kUnit);
    ASSERT_EQ(store_->Read(static_cast<int64_t>(unit * kUnit), {read.data(), kUnit}), 0);
    std::string expected(kUnit, 'a');
    expected.replace(10, part.size(), part);
    ASSERT_EQ(std::string_view(read.data(), kUnit), expected) << unit;
  }
}

// Whether a thread of the process is in pread(2).
bool WaitsInRead(pid_t process) {
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    std::string number;
    std::ifstream(task.path() / "syscall") >> number;
    if (number == std::to_string(SYS_pread64)) return true;
  }
  return false;
}

// The storage is a FUSE file whose server is stopped before it receives the read.
TEST_F(ServedVolumeTest, AKilledProcessEndsAlthoughItsStorageAnswersNoRead) {
  Serve();
  // The kernel learns that the server has no call for close(2), which it would wait for.
  base::UniqueFd(open(file_.c_str(), O_RDWR | O_CLOEXEC)).Reset();
  int begun[2];
  ASSERT_EQ(pipe2(begun, O_CLOEXEC), 0);
  const base::UniqueFd begun_read(begun[0]), begun_write(begun[1]);
  int stopped[2];
  ASSERT_EQ(pipe2(stopped, O_CLOEXEC), 0);
  const base::UniqueFd stopped_read(stopped[0]), stopped_write(stopped[1]);
  const pid_t reader = fork();
  ASSERT_GE(reader, 0);
  if (reader == 0) {
    auto store = FileStore::Open(base::UniqueFd(open(file_.c_str(), O_RDWR | O_CLOEXEC)), false);
    if (!store.ok()) _exit(2);
    char byte = 'o';
    if (write(begun_write.get(), &byte, 1) != 1 || read(stopped_read.get(), &byte, 1) != 1) {
      _exit(3);
    }
    const Block block(kUnit);
    Transfer transfer{.data = {block.data(), kUnit}, .ended = [](Transfer&, int) {}};
    if ((*store)->Begin(transfer)) {
      if (write(begun_write.get(), "b", 1) != 1) _exit(3);
      for (;;) pause();
    }
    (*store)->Read(0, transfer.data);
    _exit(4);
  }
  char byte = 0;
  ASSERT_EQ(read(begun_read.get(), &byte, 1), 1);
  ASSERT_EQ(kill(server_, SIGSTOP), 0);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // Until all its threads have stopped, one of them could still receive the read.
  siginfo_t stop = {};
  while (waitid(P_PID, server_, &stop, WSTOPPED | WNOHANG) == 0 && stop.si_pid != server_) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(stop.si_pid, server_);
  ASSERT_EQ(write(stopped_write.get(), "s", 1), 1);
  pollfd arrived = {begun_read.get(), POLLIN, 0};
  while (!WaitsInRead(reader) && poll(&arrived, 1, 5) == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  const base::UniqueFd process = platform::OpenPid(reader);
  ASSERT_EQ(kill(reader, SIGKILL), 0);
  EXPECT_TRUE(platform::WaitReadable(process.get(), std::chrono::steady_clock::now() + kPatience));
  kill(server_, SIGCONT);
  int status = 0;
  ASSERT_EQ(waitpid(reader, &status, 0), reader);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
}

}  // namespace
}  // namespace berth::blockexport
