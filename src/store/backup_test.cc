#include "store/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/fault.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace berth::store {
namespace {

using base::StatusCode;
using testing::HasSubstr;

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    std::string name = "/tmp/berth-backup-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~BackupTest() override { std::filesystem::remove_all(folder_); }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }
  std::unique_ptr<Store> Open() {
    auto store = Store::Open({.path = file("db")});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  void Damage(const std::string& path) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(4096);
    stream << std::string(4096, 'x');
  }
  std::string folder_;
};

TEST_F(BackupTest, ABackupTakenInUseIsOneMomentAndComesBack) {
  Revision last = 0;
  {
    const auto store = Open();
    std::atomic<bool> stop = false;

    std::jthread writer([&] {
      Revision a = 0;
      for (int i = 0; !stop || i < 50; ++i) {
        const auto written = store->Apply({"/pods/a/x", a, fmt::format("{}", i)});
        ASSERT_TRUE(written.ok()) << written.status();
        a = last = *written;
      }
    });
    while (!store->Get("/pods/a/x").ok()) std::this_thread::yield();
    ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
    stop = true;
  }
  struct stat st;
  ASSERT_EQ(stat(file("copy").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u) << "it holds Secrets";
  EXPECT_FALSE(std::filesystem::exists(file("copy.partial")));

  const auto aside = RestoreDatabase(file("copy"), file("db"));
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_TRUE(std::filesystem::exists(*aside)) << "what was replaced is kept";
  const auto store = Open();
  EXPECT_GT(store->current(), last) << "no revision is given twice";
  const auto restored = store->Get("/pods/a/x");
  ASSERT_TRUE(restored.ok());
  // A client that watched the lost history must list again.
  EXPECT_EQ(store->ReadChanges("/pods/", last, 10).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store->List("/pods/", "", 0, 0)->records.size(), 1u);
  EXPECT_TRUE(store->Apply({"/pods/a/x", restored->revision, "new"}).ok());
  EXPECT_TRUE(store->Apply({"/pods/a/y", 0, "new"}).ok());
}

TEST_F(BackupTest, NobodyElseMayReadWhatARestorePutsThereOrKeeps) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Apply({"/secrets/a/x", 0, "password"}).ok());
    ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
  }
  ASSERT_EQ(chmod(file("db").c_str(), 0644), 0);
  ASSERT_EQ(chmod(file("copy").c_str(), 0644), 0);  // as a person may have copied it
  const mode_t before = umask(0);
  const auto aside = RestoreDatabase(file("copy"), file("db"));
  umask(before);
  ASSERT_TRUE(aside.ok()) << aside.status();
  for (const std::string& path : {file("db"), *aside}) {
    struct stat st;
    ASSERT_EQ(stat(path.c_str(), &st), 0) << path;
    EXPECT_EQ(st.st_mode & 0777, 0600u) << path;
  }
}

TEST_F(BackupTest, ADamagedDatabaseIsReplacedAndKept) {
  {
    const auto store = Open();
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(store->Apply({fmt::format("/pods/a/{}", i), 0, std::string(500, 'v')}).ok());
    }
    ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
  }
  Damage(file("db"));
  EXPECT_EQ(Store::Open({.path = file("db")}).status().code(), StatusCode::kDataLoss);
  const auto aside = RestoreDatabase(file("copy"), file("db"));
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(Open()->List("/pods/", "", 0, 0)->records.size(), 100u);
}

TEST_F(BackupTest, WhatIsNotAWholeBackupChangesNothing) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Apply({"/pods/a/x", 0, std::string(9000, 'v')}).ok());
    ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
  }
  Damage(file("copy"));
  std::ofstream(file("text")) << std::string(4096, 'x');
  ASSERT_TRUE(Database::Open(file("foreign"), false)->Execute("CREATE TABLE t (a)").ok());
  for (const char* name : {"copy", "text", "foreign"}) {
    EXPECT_EQ(RestoreDatabase(file(name), file("db")).status().code(), StatusCode::kDataLoss)
        << name;
  }
  EXPECT_EQ(RestoreDatabase(file("none"), file("db")).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Open()->Get("/pods/a/x").ok());
}

// Fault points are the process's: a restore that meets one runs in a child.
class CutOffRestoreDeathTest : public BackupTest {
 protected:
  CutOffRestoreDeathTest() {
    const auto store = Open();
    EXPECT_TRUE(store->Apply({"/pods/a/x", 0, "old"}).ok());
    EXPECT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
    EXPECT_TRUE(store->Apply({"/pods/a/y", 0, "newer"}).ok());
  }
  int RestoreWith(const char* faults) {
    setenv("BERTH_FAULTS", faults, 1);
    if (!base::InitFaultPoints().ok()) return 2;
    return RestoreDatabase(file("copy"), file("db")).ok() ? 0 : 1;
  }
};

TEST_F(CutOffRestoreDeathTest, AFailureLeavesWhatWas) {
  EXPECT_EXIT(std::exit(RestoreWith("store.restore.aside=error")), testing::ExitedWithCode(1), "");
  EXPECT_TRUE(Open()->Get("/pods/a/y").ok());
}

TEST_F(CutOffRestoreDeathTest, WhatACrashLeavesIsNotTakenForTheDatabase) {
  EXPECT_EXIT(std::exit(RestoreWith("store.restore.aside=crash")), testing::KilledBySignal(SIGKILL),
              "");
  const auto refused = Store::Open({.path = file("db")});
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(base::Message(refused.status())), HasSubstr("restore it again"));
  ASSERT_TRUE(RestoreDatabase(file("copy"), file("db")).ok());
  EXPECT_TRUE(Open()->Get("/pods/a/x").ok());
}

TEST_F(BackupTest, EachRestoreKeepsTheDatabaseBeforeIt) {
  ASSERT_TRUE(Open()->Apply({"/pods/a/x", 0, "v"}).ok());
  ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
  std::set<std::string> kept;
  for (int i = 0; i < 3; ++i) {
    const auto aside = RestoreDatabase(file("copy"), file("db"));
    ASSERT_TRUE(aside.ok()) << base::ToString(aside.status());
    kept.insert(*aside);
  }
  EXPECT_EQ(kept.size(), 3u);
  for (const std::string& path : kept) EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST_F(BackupTest, NothingIsOverwrittenAndNothingInUseIsReplaced) {
  const auto store = Open();
  ASSERT_TRUE(store->Apply({"/pods/a/x", 0, "v"}).ok());
  ASSERT_TRUE(BackUpDatabase(file("db"), file("copy")).ok());
  EXPECT_EQ(BackUpDatabase(file("db"), file("copy")).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(BackUpDatabase(file("none"), file("other")).code(), StatusCode::kNotFound);
  const auto restored = RestoreDatabase(file("copy"), file("db"));
  EXPECT_EQ(restored.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(restored.status())), HasSubstr("in use"));
}

}  // namespace
}  // namespace berth::store
