// The tests of a store's files on the disk: who may read them, how large they are, of which
// version, and whether another process or a stranger has written them.
#include "store/database_files.h"

#include <sys/stat.h>

#include <fstream>
#include <latch>
#include <thread>

#include "store/backup.h"
#include "store/sqlite.h"
#include "store/store_fixture.h"

namespace berth::store {
namespace {

using DatabaseFilesTest = StoreTest;

TEST_F(DatabaseFilesTest, OnlyTheOwnerMayReadItsFilesWhateverTheUmask) {
  const mode_t before = umask(0);
  store_.reset();
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    std::filesystem::remove(folder_.file("db") + suffix);
  }
  Open();
  Put("/secrets/a/x", 0, "password");
  umask(before);
  EXPECT_EQ(folder_.ListOpenFiles(), std::vector<std::string>());
}

TEST_F(DatabaseFilesTest, FilesThatOthersMayReadAreClosedToThemAtTheStart) {
  const Revision last = Put("/secrets/a/x", 0, "password");
  BackUpDatabase(folder_.file("db"), folder_.file("copy")).IgnoreError();
  store_.reset();
  const auto aside = RestoreDatabase(folder_.file("copy"), folder_.file("db"));
  ASSERT_TRUE(aside.ok()) << aside.status();
  for (const std::string& path : {folder_.file("db"), folder_.file("db.lock"), *aside}) {
    ASSERT_EQ(chmod(path.c_str(), 0644), 0) << path;
  }
  std::ofstream(folder_.file("db-wal")).close();
  ASSERT_EQ(chmod(folder_.file("db-wal").c_str(), 0666), 0);
  Open();
  Put("/secrets/a/y", 0, "password");
  EXPECT_EQ(folder_.ListOpenFiles(), std::vector<std::string>());
  EXPECT_GT(store_->Get("/secrets/a/y")->revision, last);
}

// A person who deletes what filled the store sees that the disk gets its room back. The longest
// wait of a write meanwhile is printed, because it depends on the machine.
TEST_F(DatabaseFilesTest, TheFileGetsSmallerWhenObjectsAreDeletedAndWritesGoOn) {
  store_.reset();
  auto opened = Store::Open(
      {.path = folder_.file("db"),
       .upkeep = {.small_file = 64 * 1024, .keep_history = std::chrono::milliseconds(100)}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  constexpr int kObjects = 3000;
  std::vector<Revision> revisions(kObjects);
  const auto apply_all = [&](const std::optional<std::string>& value) {
    const auto done = std::make_shared<std::latch>(kObjects);
    for (int i = 0; i < kObjects; ++i) {
      store_->ApplyAsync(
          {fmt::format("/pods/a/{}", i), revisions[i], value},
          [&, i, done](StatusOr<Revision> result) {
            EXPECT_TRUE(result.ok()) << result.status();
            if (result.ok()) revisions[i] = *result;
            done->count_down();
          },
          Store::CommitOn::kWriterThread);
    }
    done->wait();
  };
  apply_all(std::string(8000, 'v'));
  apply_all(std::nullopt);
  const auto size = [&] { return std::filesystem::file_size(folder_.file("db")); };
  constexpr uintmax_t kSmall = 4 << 20;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  std::chrono::steady_clock::duration longest{};
  uintmax_t largest = 0;
  Revision revision = 0;
  int writes = 0;
  while (largest < 2 * kSmall || size() > kSmall) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << size() << " of " << largest;
    largest = std::max(largest, size());
    const auto begin = std::chrono::steady_clock::now();
    revision = Put("/pods/a/other", revision, fmt::format("{}", ++writes));
    longest = std::max(longest, std::chrono::steady_clock::now() - begin);
    // Upkeep compacts at most 10,000 revisions a second. On a quick disk a client that never pauses
    // writes more, and only keep_revisions bounds the history then.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fmt::print("from {} to {} bytes during {} writes; the longest waited for {} ms\n", largest,
             size(), writes,
             std::chrono::duration_cast<std::chrono::milliseconds>(longest).count());
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 1u);
}

TEST_F(DatabaseFilesTest, ADatabaseOfAnEarlierBerthIsRewrittenOnce) {
  Put("/pods/a/x", 0, "kept");
  store_.reset();
  const auto mode = [&] {
    auto db = Database::Open(folder_.file("db"), /*read_only=*/false);
    return db.ok() ? *db->QueryInt("PRAGMA auto_vacuum") : -1;
  };
  {
    auto db = Database::Open(folder_.file("db"), /*read_only=*/false);
    ASSERT_TRUE(db->Execute("PRAGMA auto_vacuum = NONE; VACUUM").ok());
  }
  ASSERT_EQ(mode(), 0);
  Open();
  EXPECT_EQ(*store_->Get("/pods/a/x")->value, "kept");
  store_.reset();
  EXPECT_EQ(mode(), 2);
}

TEST_F(DatabaseFilesTest, ASecondProcessIsRefused) {
  const auto second = Store::Open({.path = folder_.file("db")});
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(DatabaseFilesTest, ForeignAndDamagedFilesAreRefusedAndKept) {
  const std::string text = folder_.file("text");
  std::ofstream(text) << std::string(4096, 'x');
  EXPECT_EQ(Store::Open({.path = text}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(std::filesystem::file_size(text), 4096u);

  const std::string foreign = folder_.file("foreign");
  ASSERT_TRUE(Database::Open(foreign, false)->Execute("CREATE TABLE t (a)").ok());
  EXPECT_EQ(Store::Open({.path = foreign}).status().code(), StatusCode::kDataLoss);

  for (int i = 0; i < 200; ++i) Put(fmt::format("/pods/a/{}", i), 0, std::string(500, 'v'));
  store_.reset();
  {
    std::fstream file(folder_.file("db"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8192);
    file << std::string(4096 * 5, 'x');
  }
  const auto damaged = Store::Open({.path = folder_.file("db")});
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(base::Message(damaged.status()).find("backup"), std::string_view::npos);
}

}  // namespace
}  // namespace berth::store
