// The store on a disk that is full. Needs root, to mount a small tmpfs.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "store/store.h"

namespace berth::store {
namespace {

class SmallDisk {
 public:
  explicit SmallDisk(const char* size = "size=2m") {
    std::string name = "/tmp/berth-small-XXXXXX";
    path_ = mkdtemp(name.data());
    EXPECT_EQ(mount("tmpfs", path_.c_str(), "tmpfs", 0, size), 0);
  }
  ~SmallDisk() {
    umount2(path_.c_str(), MNT_DETACH);
    std::filesystem::remove(path_);
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_;
};

TEST(StoreOnAFullDisk, RefusesWritesKeepsWhatWasAcknowledgedAndGoesOnWhenThereIsRoom) {
  SmallDisk disk;
  std::ofstream(disk.file("ballast")) << std::string(512 * 1024, 'b');
  auto store = Store::Open({.path = disk.file("db")});
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::string> acknowledged;
  Status full = base::OkStatus();
  for (int i = 0; i < 10000 && full.ok(); ++i) {
    const std::string key = fmt::format("/pods/a/{}", i);
    const auto written = (*store)->Apply({key, 0, std::string(4000, 'v')});
    if (written.ok()) acknowledged.push_back(key);
    full = written.status();
  }
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.code(), base::StatusCode::kResourceExhausted) << base::ToString(full);
  ASSERT_GT(acknowledged.size(), 10u);
  for (const std::string& key : acknowledged) EXPECT_TRUE((*store)->Get(key).ok()) << key;

  std::filesystem::remove(disk.file("ballast"));
  EXPECT_TRUE((*store)->Apply({"/pods/a/after", 0, "v"}).ok());
  store->reset();
  store = Store::Open({.path = disk.file("db")});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->List("/pods/", "", 0, 0)->records.size(), acknowledged.size() + 1);
}

// A reserve that is a file; it never comes back by itself.
class FileReserve : public Reserve {
 public:
  FileReserve(std::string path, size_t bytes) : path_(std::move(path)) {
    std::ofstream(path_) << std::string(bytes, 'r');
  }
  bool GiveUp() override { return !given_up_.exchange(true) && std::filesystem::remove(path_); }
  bool IsGivenUp() override { return given_up_; }
  void TakeBack() { given_up_ = false; }

 private:
  const std::string path_;
  std::atomic<bool> given_up_ = false;
};

TEST(StoreOnAFullDisk, EverythingCanStillBeDeleted) {
  SmallDisk disk("size=16m");
  FileReserve reserve(disk.file("reserve"), 4 << 20);
  auto store = Store::Open({.path = disk.file("db"), .reserve = &reserve});
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::pair<std::string, Revision>> stored;
  Status full = base::OkStatus();
  for (int i = 0; i < 10000 && full.ok(); ++i) {
    const std::string key = fmt::format("/pods/a/{}", i);
    const auto written = (*store)->Apply({key, 0, std::string(4000, 'v')});
    if (written.ok()) stored.emplace_back(key, *written);
    full = written.status();
  }
  EXPECT_EQ(full.code(), base::StatusCode::kResourceExhausted) << base::ToString(full);
  EXPECT_TRUE(reserve.IsGivenUp());
  ASSERT_GT(stored.size(), 500u);
  EXPECT_EQ((*store)->Apply({"/pods/a/new", 0, "v"}).status().code(),
            base::StatusCode::kResourceExhausted);
  // As with a finalizer: an update, and then the delete.
  for (auto& [key, revision] : stored) {
    const auto updated = (*store)->Apply({key, revision, std::string(4000, 'd')});
    ASSERT_TRUE(updated.ok()) << key << ": " << updated.status();
    const auto deleted = (*store)->Apply({key, *updated, std::nullopt});
    ASSERT_TRUE(deleted.ok()) << key << ": " << deleted.status();
  }
  EXPECT_EQ((*store)->List("/pods/", "", 0, 0)->records.size(), 0u);
  reserve.TakeBack();
  EXPECT_TRUE((*store)->Apply({"/pods/a/after", 0, "v"}).ok());
}

}  // namespace
}  // namespace berth::store
