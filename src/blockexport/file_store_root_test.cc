#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <future>
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

}  // namespace
}  // namespace berth::blockexport
