// A server of a file's volume in a process of its own, with a real FUSE file and loop device.
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <random>
#include <vector>

#include "base/assert_ok.h"
#include "blockexport/request_threads.h"
#include "blockexport/serve_settings.h"
#include "blockexport/served_volume_fixture.h"
#include "platform/files/durable_file.h"

namespace berth::blockexport {
namespace {

namespace calls = base::ipc::volume_export;
using testing::HasSubstr;

constexpr int kThreads = 8;

// A device that several threads write and read at once, and what it must hold: the number of the
// last write of each unit, 0 for zeroes. Each thread has units of its own.
class Model {
 public:
  Model(int device, size_t units) : device_(device), written_(units) {}

  void RunThread(int thread, int steps) {
    std::mt19937 random(static_cast<unsigned>(thread));
    const size_t share = written_.size() / kThreads;
    const size_t first = share * static_cast<size_t>(thread);
    for (int step = 1; step <= steps; ++step) {
      const size_t count = size_t{1} << (random() % 9);  // up to 1 MiB
      const size_t at = first + random() % (share - count + 1);
      switch (random() % 8) {
        case 0:
          Zero(at, count, random() % 2 == 0 ? BLKDISCARD : BLKZEROOUT);
          break;
        case 1:
        case 2:
        case 3:
          CheckUnits(device_, at, count);
          break;
        default:
          Write(at, count, static_cast<uint64_t>(thread + 1) << 32 | static_cast<uint64_t>(step));
      }
      if (step % 64 == 0) EXPECT_EQ(fsync(device_), 0);
    }
  }
  // Compares what `fd` holds with the model.
  void CheckUnits(int fd, size_t at, size_t count) {
    const Block block(count * kUnit);
    ASSERT_EQ(pread(fd, block.data(), block.size(), static_cast<off_t>(at * kUnit)),
              static_cast<ssize_t>(block.size()));
    for (size_t i = 0; i < count; ++i) {
      const auto* words = reinterpret_cast<const uint64_t*>(block.data() + i * kUnit);
      for (size_t word = 0; word < kUnit / sizeof(uint64_t); ++word) {
        ASSERT_EQ(words[word], WordOf(at + i, word)) << "unit " << at + i << ", word " << word;
      }
    }
  }
  size_t size() const { return written_.size(); }

 private:
  uint64_t WordOf(size_t unit, size_t word) const {
    return written_[unit] == 0 ? 0 : written_[unit] * 0x9E3779B97F4A7C15u + unit * 512 + word;
  }
  void Write(size_t at, size_t count, uint64_t number) {
    const Block block(count * kUnit);
    std::fill_n(written_.begin() + static_cast<ptrdiff_t>(at), count, number);
    for (size_t i = 0; i < count; ++i) {
      auto* words = reinterpret_cast<uint64_t*>(block.data() + i * kUnit);
      for (size_t word = 0; word < kUnit / sizeof(uint64_t); ++word) {
        words[word] = WordOf(at + i, word);
      }
    }
    ASSERT_EQ(pwrite(device_, block.data(), block.size(), static_cast<off_t>(at * kUnit)),
              static_cast<ssize_t>(block.size()));
  }
  void Zero(size_t at, size_t count, unsigned long request) {
    uint64_t range[] = {at * kUnit, count * kUnit};
    ASSERT_EQ(ioctl(device_, request, range), 0) << strerror(errno);
    std::fill_n(written_.begin() + static_cast<ptrdiff_t>(at), count, 0);
  }

  const int device_;
  std::vector<uint64_t> written_;
};

TEST_F(ServedVolumeTest, ReadsWritesAndHolesOfManyThreadsMatchAModel) {
  Serve();
  const base::UniqueFd device = Attach();
  ASSERT_TRUE(loop_.direct_io);
  Model model(device.get(), kSize / kUnit);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] { model.RunThread(thread, 400); });
    }
  }
  // Also what lies in the file below is right, once the device has flushed.
  EXPECT_EQ(fsync(device.get()), 0);
  const base::UniqueFd image(open(image_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  for (size_t at = 0; at < model.size(); at += 256) {
    model.CheckUnits(device.get(), at, 256);
    model.CheckUnits(image.get(), at, 256);
  }
}

TEST_F(ServedVolumeTest, AHoleGivesItsSpaceBack) {
  Serve();
  const base::UniqueFd device = Attach();
  Block block(4 * kMiB);
  std::fill_n(block.data(), block.size(), 'x');
  ASSERT_EQ(pwrite(device.get(), block.data(), block.size(), 0), 4 * kMiB);
  struct stat st;
  ASSERT_EQ(stat(image_.c_str(), &st), 0);
  const auto before = st.st_blocks;
  uint64_t range[] = {0, 4 * kMiB};
  ASSERT_EQ(ioctl(device.get(), BLKDISCARD, range), 0);
  ASSERT_EQ(stat(image_.c_str(), &st), 0);
  EXPECT_LE(st.st_blocks, before - 4 * kMiB / 512);
}

// The kernel then writes zeroes itself.
TEST_F(ServedVolumeTest, AStoreThatCannotZeroStillGivesZeroes) {
  Serve();
  commands_.zeroes() = EOPNOTSUPP;
  const base::UniqueFd device = Attach();
  Block block(kMiB);
  std::fill_n(block.data(), block.size(), 'x');
  ASSERT_EQ(pwrite(device.get(), block.data(), block.size(), 0), kMiB);
  uint64_t range[] = {0, kMiB};
  ASSERT_EQ(ioctl(device.get(), BLKZEROOUT, range), 0) << strerror(errno);
  ASSERT_EQ(pread(device.get(), block.data(), block.size(), 0), kMiB);
  EXPECT_EQ(std::count(block.data(), block.data() + block.size(), '\0'), kMiB);
}

TEST_F(ServedVolumeTest, GrowsWhileItIsUsed) {
  Serve();
  base::UniqueFd device = Attach();
  ASSERT_EQ(truncate(image_.c_str(), 2 * kSize), 0);
  const auto resized = Call(calls::kResize);
  ASSERT_TRUE(resized.ok()) << resized.failure().text;
  EXPECT_EQ(resized->FindNumber(calls::kSize), 2 * kSize);
  const auto size = platform::RefreshLoopSize(loop_);
  ASSERT_OK(size);
  EXPECT_EQ(*size, static_cast<uint64_t>(2 * kSize));
  Block block(kUnit);
  std::fill_n(block.data(), kUnit, 'x');
  EXPECT_EQ(pwrite(device.get(), block.data(), kUnit, 2 * kSize - 4096), 4096);
  EXPECT_EQ(Call(calls::kStatus)->FindNumber(calls::kSize), 2 * kSize);
}

TEST_F(ServedVolumeTest, TheKernelTakesANewSizeWhenItIsToldTo) {
  Serve();
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(truncate(image_.c_str(), 2 * kSize), 0);
  ASSERT_TRUE(Call(calls::kResize).ok());
  EXPECT_EQ(truncate(file_.c_str(), 2 * kSize), 0) << strerror(errno);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_END), 2 * kSize);
  EXPECT_EQ(std::filesystem::file_size(image_), static_cast<uint64_t>(2 * kSize));
}

TEST_F(ServedVolumeTest, ItsSizeIsNotChangedThroughTheFile) {
  Serve();
  EXPECT_NE(truncate(file_.c_str(), kMiB), 0);
  EXPECT_NE(truncate(file_.c_str(), 2 * kSize), 0);
  const base::UniqueFd cut(open(file_.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC));
  EXPECT_FALSE(cut.valid());
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  const Block block(kUnit);
  EXPECT_LT(pwrite(file.get(), block.data(), kUnit, kSize), 0);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(pread(file.get(), block.data(), kUnit, kSize), 0);
  EXPECT_EQ(std::filesystem::file_size(image_), static_cast<uint64_t>(kSize));
}

TEST_F(ServedVolumeTest, AKilledServerGivesErrorsAtOnce) {
  Serve();
  const base::UniqueFd device = Attach();
  commands_.held_offset() = 8 * kMiB;
  ssize_t got = 0;
  {
    const std::jthread waiting([&] {
      const Block block(kUnit);
      got = pread(device.get(), block.data(), kUnit, 8 * kMiB);
    });
    AwaitHeld(1);
    End();
  }
  EXPECT_EQ(got, -1);
  const Block block(kUnit);
  EXPECT_LT(pread(device.get(), block.data(), kUnit, 0), 0);
  EXPECT_LT(pwrite(device.get(), block.data(), kUnit, 0), 0);
}

TEST_F(ServedVolumeTest, ErrorsOfTheStoreReachTheUserEachTime) {
  Serve();
  const base::UniqueFd device = Attach();
  const Block block(kUnit);
  for (const int error : {EIO, ESHUTDOWN, ENOSYS, EAGAIN, ETIMEDOUT, 5000}) {
    commands_.reads() = error;
    commands_.writes() = error;
    EXPECT_LT(pread(device.get(), block.data(), kUnit, 0), 0) << error;
    EXPECT_EQ(errno, EIO) << error;
    EXPECT_LT(pwrite(device.get(), block.data(), kUnit, 0), 0) << error;
    EXPECT_EQ(errno, EIO) << error;
  }
  commands_.reads() = 0;
  commands_.writes() = ENOSPC;
  EXPECT_LT(pwrite(device.get(), block.data(), kUnit, 0), 0);
  EXPECT_EQ(errno, ENOSPC);
  commands_.writes() = 0;
  EXPECT_EQ(pwrite(device.get(), block.data(), kUnit, 0), static_cast<ssize_t>(kUnit));
  // After an ENOSYS the kernel would report success without asking.
  commands_.flushes() = ENOSYS;
  for (int i = 0; i < 2; ++i) EXPECT_LT(fsync(device.get()), 0) << i;
}

TEST_F(ServedVolumeTest, AFailedFlushFailsAllLaterOnesAndTheQuit) {
  Serve();
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(fsync(file.get()), 0);
  commands_.flushes() = EIO;
  EXPECT_LT(fsync(file.get()), 0);
  commands_.flushes() = 0;
  EXPECT_LT(fsync(file.get()), 0);
  EXPECT_EQ(Call(calls::kQuit).failure().problem, base::ipc::Problem::kRefused);
}

TEST_F(ServedVolumeTest, WritesThatAreNotAlignedKeepTheirNeighbours) {
  Serve();
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  std::string expected(8 * kUnit, 'a');
  ASSERT_EQ(pwrite(file.get(), expected.data(), expected.size(), 0), 8 * 4096);
  for (const auto& [at, count] : {std::pair<size_t, size_t>{10, 100},
                                  {kUnit - 1, 2},
                                  {2 * kUnit + 512, 3 * kUnit},
                                  {7 * kUnit, 512}}) {
    const std::string part(count, 'b');
    expected.replace(at, count, part);
    EXPECT_EQ(pwrite(file.get(), part.data(), count, static_cast<off_t>(at)),
              static_cast<ssize_t>(count));
    std::string got(count + 2, '\0');
    EXPECT_EQ(pread(file.get(), got.data(), got.size(), static_cast<off_t>(at - 1)),
              static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, expected.substr(at - 1, got.size()));
  }
}

TEST(ServeSettingsRootTest, AreReadByAProcessThatStorageMayWaitFor) {
  constexpr int kRefused = 77;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const base::UniqueFd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (ReadSettings(empty.get()).ok()) _exit(2);
    int flusher = 0;
    std::thread([&] { flusher = prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0); }).join();
    if (signal(SIGPIPE, SIG_DFL) != SIG_IGN) _exit(3);
    if (flusher == 1) _exit(0);
    _exit(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0 ? 4 : kRefused);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kRefused) GTEST_SKIP() << "PR_SET_IO_FLUSHER is refused here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ServedVolumeTest, ALateAnswerDelaysNoOtherRequest) {
  Serve();
  const base::UniqueFd device = Attach();
  commands_.held_offset() = 8 * kMiB;
  std::vector<std::jthread> waiting;
  // As many as the kernel sends at once, so that it sends no other read before one is answered.
  for (unsigned i = 0; i < kMostTransfers; ++i) {
    waiting.emplace_back([&] {
      const Block block(kUnit);
      const base::UniqueFd own = OpenLoop(O_RDONLY);
      EXPECT_EQ(pread(own.get(), block.data(), kUnit, 8 * kMiB), static_cast<ssize_t>(kUnit));
    });
    AwaitHeld(1);
    if (i + 1 < kMostTransfers) {
      ASSERT_TRUE(EndsInTime([&] {
        const Block block(kUnit);
        EXPECT_EQ(pread(device.get(), block.data(), kUnit, 0), static_cast<ssize_t>(kUnit)) << i;
      }));
    }
  }
  struct statx seen = {};
  ASSERT_TRUE(EndsInTime([&] {
    EXPECT_EQ(statx(AT_FDCWD, file_.c_str(), AT_STATX_FORCE_SYNC, STATX_SIZE, &seen), 0);
  }));
  EXPECT_EQ(seen.stx_size, static_cast<uint64_t>(kSize));
  EXPECT_TRUE(Call(calls::kStatus).ok());
  commands_.held_offset() = -1;
  commands_.Release(kMostTransfers);
  waiting.clear();
  // The threads that the burst needed end, and what comes later is served.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (CountRequestThreads() > 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << CountRequestThreads();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Block block(kUnit);
  EXPECT_EQ(pread(device.get(), block.data(), kUnit, 0), static_cast<ssize_t>(kUnit));
}

TEST_F(ServedVolumeTest, QuitsAndUnmounts) {
  Serve();
  ASSERT_TRUE(Call(calls::kQuit).ok());
  const int status = WaitForEnd();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(std::filesystem::file_size(file_), 0u);  // the file below the mount
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(ServedVolumeTest, DoesNotQuitWithoutAFlush) {
  Serve();
  commands_.flushes() = EIO;
  const auto refused = Call(calls::kQuit);
  EXPECT_EQ(refused.failure().problem, base::ipc::Problem::kRefused);
  EXPECT_EQ(refused.failure().code, "DATA_LOSS");
  EXPECT_EQ(std::filesystem::file_size(file_), static_cast<uint64_t>(kSize));
}

TEST_F(ServedVolumeTest, KnowsWhetherAFlushHasCoveredAllWrites) {
  Serve();
  const auto has_flushed = [this] { return Call(calls::kStatus)->FindNumber(calls::kFlushed); };
  EXPECT_EQ(has_flushed(), 1);
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
  const Block block(kUnit);
  for (const bool zeroes : {false, true}) {
    if (zeroes) {
      ASSERT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kUnit), 0);
    } else {
      ASSERT_EQ(pwrite(file.get(), block.data(), kUnit, 0), static_cast<ssize_t>(kUnit));
    }
    EXPECT_EQ(has_flushed(), 0);
    ASSERT_EQ(fsync(file.get()), 0);
    EXPECT_EQ(has_flushed(), 1);
  }
  commands_.flushes() = EIO;
  EXPECT_LT(fsync(file.get()), 0);
  EXPECT_EQ(has_flushed(), 0);
}

TEST_F(ServedVolumeTest, QuitsWithoutAFlushOnceTheStorageHasShutItOut) {
  Serve();
  const base::UniqueFd file(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  commands_.flushes() = EIO;
  EXPECT_LT(fsync(file.get()), 0);
  commands_.flushes() = ESHUTDOWN;
  EXPECT_LT(fsync(file.get()), 0);
  ASSERT_TRUE(Call(calls::kQuit).ok());
  const int status = WaitForEnd();
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

TEST_F(ServedVolumeTest, EndsWhenItsConnectionIsAborted) {
  Serve();
  struct stat st;
  ASSERT_EQ(stat(file_.c_str(), &st), 0);
  ASSERT_EQ(umount(file_.c_str()), 0);  // nothing holds it, so the kernel ends the connection
  const int status = WaitForEnd();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

TEST_F(ServedVolumeTest, AReadOnlyVolumeRefusesWriters) {
  Serve(/*read_only=*/true);
  const base::UniqueFd writing(open(file_.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(writing.valid());
  EXPECT_EQ(errno, EROFS);
  const base::UniqueFd device = Attach(O_RDONLY);
  EXPECT_TRUE(loop_.read_only);
  const Block block(kUnit);
  EXPECT_EQ(pread(device.get(), block.data(), kUnit, 0), static_cast<ssize_t>(kUnit));
}

TEST_F(ServedVolumeTest, SaysWhyItCannotServe) {
  const pid_t server = fork();
  ASSERT_GE(server, 0);
  if (server == 0) {
    dup2(open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    auto store = FileStore::Open(base::UniqueFd(open(image_.c_str(), O_RDWR)), false);
    if (!store.ok()) _exit(9);
    _exit(RunExport(*std::move(store), {.socket = socket_, .file = folder_ / "missing"}));
  }
  int status = 0;
  ASSERT_EQ(waitpid(server, &status, 0), server);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  const std::string report = *platform::ReadFile(output_);
  EXPECT_THAT(report, HasSubstr(R"("code":"NOT_FOUND")"));
  EXPECT_THAT(report, HasSubstr("missing"));
}

}  // namespace
}  // namespace berth::blockexport
