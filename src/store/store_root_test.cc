// The store on a disk that is full. Needs root, to mount a small tmpfs.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "store/store.h"

namespace berth::store {
namespace {

class SmallDisk {
 public:
  SmallDisk() {
    std::string name = "/tmp/berth-small-XXXXXX";
    path_ = mkdtemp(name.data());
    EXPECT_EQ(mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=2m"), 0);
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

}  // namespace
}  // namespace berth::store
