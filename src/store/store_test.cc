#include "store/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <new>
#include <thread>

#include "base/fault.h"
#include "base/mutex.h"
#include "store/backup.h"
#include "store/fan_out.h"
#include "store/sqlite.h"

namespace berth::store {
namespace {

using base::StatusCode;

class TempFolder {
 public:
  TempFolder() {
    std::string name = "/tmp/berth-store-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
  // The names and modes of the files that others may read or write.
  std::vector<std::string> ListOpenFiles() const {
    std::vector<std::string> open;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      struct stat st{};
      EXPECT_EQ(stat(entry.path().c_str(), &st), 0) << entry.path();
      if ((st.st_mode & 077) == 0) continue;
      open.push_back(fmt::format("{} {:o}", entry.path().filename().string(), st.st_mode & 07777));
    }
    return open;
  }

 private:
  std::string path_;
};

// Keeps the changes that it was given, and waits for them.
class Recorder : public Watcher {
 public:
  void OnChange(const Change& change) override {
    base::MutexLock lock(mutex_);
    changes_.push_back(change);
    changed_.NotifyAll();
  }
  void OnProgress(Revision revision) override {
    base::MutexLock lock(mutex_);
    progress_ = revision;
    changed_.NotifyAll();
  }
  void OnLost(const Status& why) override {
    base::MutexLock lock(mutex_);
    lost_ = why;
    changed_.NotifyAll();
  }
  std::vector<Change> WaitFor(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (changes_.size() < count && changed_.WaitUntil(mutex_, deadline)) {
    }
    return changes_;
  }
  bool WaitForProgress(Revision revision) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (progress_ < revision && changed_.WaitUntil(mutex_, deadline)) {
    }
    return progress_ >= revision;
  }
  bool HasProgress() {
    base::MutexLock lock(mutex_);
    return progress_ > 0;
  }
  Status WaitForLoss() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (lost_.ok() && changed_.WaitUntil(mutex_, deadline)) {
    }
    return lost_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Change> changes_ ABSL_GUARDED_BY(mutex_);
  Revision progress_ ABSL_GUARDED_BY(mutex_) = 0;
  Status lost_ ABSL_GUARDED_BY(mutex_);
};

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = Store::Open({.path = folder_.file("db")});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  Revision Put(std::string key, Revision expected, std::string value) {
    auto revision = store_->Apply({std::move(key), expected, std::move(value)});
    EXPECT_TRUE(revision.ok()) << revision.status();
    return revision.ok() ? *revision : 0;
  }
  Revision Remove(std::string key, Revision expected) {
    auto revision = store_->Apply({std::move(key), expected, std::nullopt});
    EXPECT_TRUE(revision.ok()) << revision.status();
    return revision.ok() ? *revision : 0;
  }

  // Creates the object, and returns the thread that committed it.
  std::thread::id FindWriterOf(std::string key, Store::CommitOn where) {
    std::promise<std::thread::id> writer;
    auto found = writer.get_future();
    const auto answer = [&](const StatusOr<Revision>& result) {
      EXPECT_TRUE(result.ok()) << result.status();
      writer.set_value(std::this_thread::get_id());
    };
    store_->ApplyAsync({std::move(key), 0, "v"}, answer, where);
    return found.get();
  }
  // Waits until the writer thread has ended its first upkeep, which comes at once, and so waits for
  // work. A turn in which it answers a write includes that upkeep, unless an earlier one did.
  void WaitUntilNobodyWrites() {
    FindWriterOf("/idle/thread", Store::CommitOn::kWriterThread);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int i = 0; FindWriterOf(fmt::format("/idle/{}", i), Store::CommitOn::kThisThread) !=
                    std::this_thread::get_id();
         ++i) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no caller commits itself";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TempFolder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, WritesAreConditionalOnTheRevision) {
  const Revision created = Put("/pods/a/x", 0, "one");
  EXPECT_EQ(store_->Apply({"/pods/a/x", 0, "again"}).status().code(), StatusCode::kAlreadyExists);
  const Revision updated = Put("/pods/a/x", created, "two");
  EXPECT_GT(updated, created);
  EXPECT_EQ(store_->Apply({"/pods/a/x", created, "stale"}).status().code(), StatusCode::kAborted);
  EXPECT_EQ(store_->Apply({"/pods/a/y", 7, "none"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Apply({"/pods/a/y", 0, std::nullopt}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store_->Get("/pods/a/x")->value, "two");
  Remove("/pods/a/x", updated);
  EXPECT_EQ(store_->Get("/pods/a/x").status().code(), StatusCode::kNotFound);
  EXPECT_GT(Put("/pods/a/x", 0, "reborn"), updated);
}

TEST_F(StoreTest, ObjectsAndRevisionsSurviveReopening) {
  Put("/pods/a/x", 0, "one");
  const Revision last = Put("/pods/a/y", 0, "two");
  Open();
  EXPECT_EQ(store_->current(), last);
  EXPECT_EQ(*store_->Get("/pods/a/x")->value, "one");
  EXPECT_EQ(Put("/pods/a/z", 0, "three"), last + 1);
}

// Holds the writer in the next commit after Arm until it is let go.
class HoldingReserve : public Reserve {
 public:
  bool GiveUp() override { return false; }
  bool IsGivenUp() override {
    if (armed_.exchange(false)) {
      holds = std::this_thread::get_id();
      entered.count_down();
      leave.wait();
    }
    return false;
  }
  void Arm() { armed_ = true; }

  std::latch entered{1}, leave{1};
  std::thread::id holds;  // the thread that is held; valid after `entered`

 private:
  std::atomic<bool> armed_{false};
};

TEST_F(StoreTest, AThreadThatFindsNobodyWritingCommitsItself) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilNobodyWrites());
  const auto here = std::this_thread::get_id();
  EXPECT_EQ(FindWriterOf("/pods/a/x", Store::CommitOn::kThisThread), here);
  EXPECT_NE(FindWriterOf("/pods/a/y", Store::CommitOn::kWriterThread), here);
  EXPECT_EQ(*store_->Get("/pods/a/x")->value, "v");
  EXPECT_EQ(*store_->Get("/pods/a/y")->value, "v");
}

// Throws in a commit, as when memory is short.
class ThrowingReserve : public Reserve {
 public:
  bool GiveUp() override { return false; }
  bool IsGivenUp() override { throw std::bad_alloc(); }
};

// A process that went on would wait for the writer's turn for ever.
TEST_F(StoreTest, AnExceptionInACallersCommitEndsTheProcess) {
  store_.reset();
  const auto write = [this] {
    ThrowingReserve reserve;
    auto opened = Store::Open({.path = folder_.file("db"), .reserve = &reserve});
    ASSERT_TRUE(opened.ok()) << opened.status();
    try {
      (*opened)->Apply({"/pods/a/x", 0, "one"}).IgnoreError();
    } catch (const std::bad_alloc&) {
      std::exit(0);
    }
  };
  EXPECT_EXIT(write(), testing::KilledBySignal(SIGABRT), "");
}

TEST_F(StoreTest, WhatComesDuringACallersCommitIsTheWriterThreads) {
  HoldingReserve reserve;
  store_.reset();
  auto opened = Store::Open({.path = folder_.file("db"), .reserve = &reserve});
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  ASSERT_NO_FATAL_FAILURE(WaitUntilNobodyWrites());
  const auto recorder = std::make_shared<Recorder>();
  const Revision before = store_->current();
  const auto watch = store_->Watch("/pods/", 0, recorder);
  ASSERT_TRUE(watch.ok()) << watch.status();

  reserve.Arm();
  std::jthread holder([&] { Put("/pods/a/0", 0, "first"); });
  reserve.entered.wait();
  EXPECT_EQ(reserve.holds, holder.get_id());
  constexpr int kOthers = 20;
  std::latch done(kOthers);
  std::atomic<int> on_this_thread{0};
  for (int i = 1; i <= kOthers; ++i) {
    store_->ApplyAsync(
        {fmt::format("/pods/a/{}", i), 0, "later"},
        [&, self = std::this_thread::get_id()](const StatusOr<Revision>& result) {
          EXPECT_TRUE(result.ok()) << result.status();
          if (std::this_thread::get_id() == self) ++on_this_thread;
          done.count_down();
        },
        Store::CommitOn::kThisThread);
  }
  std::jthread compactor([&] { EXPECT_TRUE(store_->Compact(1).ok()); });
  EXPECT_EQ(store_->current(), before);  // nothing is written yet, and nobody was blocked
  reserve.leave.count_down();
  done.wait();
  holder.join();
  compactor.join();
  EXPECT_EQ(on_this_thread, 0);
  const auto changes = recorder->WaitFor(kOthers + 1);
  ASSERT_EQ(changes.size(), kOthers + 1U);
  for (int i = 0; i <= kOthers; ++i) {
    EXPECT_EQ(changes[i].record.key, fmt::format("/pods/a/{}", i));
    EXPECT_EQ(changes[i].record.revision, before + i + 1);
  }
}

TEST_F(StoreTest, CallersAndTheThreadWriteInTurns) {
  constexpr int kThreads = 8;
  constexpr int kWrites = 100;
  const auto recorder = std::make_shared<Recorder>();
  const auto watch = store_->Watch("/pods/", 0, recorder);
  ASSERT_TRUE(watch.ok()) << watch.status();
  std::latch done(kThreads * kWrites);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kWrites; ++i) {
          store_->ApplyAsync(
              {fmt::format("/pods/{}/{}", t, i), 0, "v"},
              [&](const StatusOr<Revision>& result) {
                EXPECT_TRUE(result.ok()) << result.status();
                done.count_down();
              },
              t % 2 == 0 ? Store::CommitOn::kThisThread : Store::CommitOn::kWriterThread);
          if (i % 25 == 0) EXPECT_TRUE(store_->Compact(store_->current()).ok());
        }
      });
    }
  }
  done.wait();
  const auto changes = recorder->WaitFor(kThreads * kWrites);
  ASSERT_EQ(changes.size(), static_cast<size_t>(kThreads * kWrites));
  for (size_t i = 1; i < changes.size(); ++i) {
    EXPECT_EQ(changes[i].record.revision, changes[i - 1].record.revision + 1);
  }
}

TEST_F(StoreTest, ListsPagesOfOneSnapshot) {
  for (const char* name : {"d", "b", "a", "c"}) Put(fmt::format("/pods/ns/{}", name), 0, name);
  Put("/podsets/ns/a", 0, "other kind");
  auto first = store_->List("/pods/", "", 3, 0);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->records.size(), 3u);
  EXPECT_TRUE(first->more);
  EXPECT_EQ(first->records[0].key, "/pods/ns/a");
  Put("/pods/ns/e", 0, "later");
  Remove("/pods/ns/d", store_->Get("/pods/ns/d")->revision);
  auto second = store_->List("/pods/", first->records[2].key, 3, first->revision);
  ASSERT_TRUE(second.ok());
  ASSERT_EQ(second->records.size(), 1u);
  EXPECT_EQ(second->records[0].key, "/pods/ns/d");
  EXPECT_FALSE(second->more);
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 4u);
  EXPECT_EQ(store_->List("/pods/", "", 0, store_->current() + 1).status().code(),
            StatusCode::kOutOfRange);
}

TEST_F(StoreTest, AWatchGivesHistoryThenLiveChangesInOrder) {
  const Revision start = Put("/pods/a/x", 0, "one");
  const Revision second = Put("/pods/a/x", start, "two");
  Put("/secrets/a/s", 0, "hidden");
  auto recorder = std::make_shared<Recorder>();
  auto handle = store_->Watch("/pods/", start, recorder);
  ASSERT_TRUE(handle.ok());
  Remove("/pods/a/x", second);
  const auto changes = recorder->WaitFor(2);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].type, Change::Type::kUpdated);
  EXPECT_EQ(*changes[0].record.value, "two");
  EXPECT_EQ(*changes[0].previous, "one");
  EXPECT_EQ(changes[1].type, Change::Type::kDeleted);
  EXPECT_EQ(*changes[1].record.value, "two");
  EXPECT_GT(changes[1].record.revision, second);
  EXPECT_TRUE(recorder->WaitForProgress(store_->current()));
}

TEST_F(StoreTest, WatchersThatJoinDuringWritesMissAndRepeatNothing) {
  constexpr int kWrites = 300;
  std::atomic<bool> started{false};
  std::jthread writer([&] {
    Revision at = 0;
    for (int i = 0; i < kWrites; ++i) {
      at = Put("/pods/a/x", at, std::to_string(i));
      started = true;
    }
  });
  while (!started) std::this_thread::yield();
  std::vector<std::pair<std::shared_ptr<Recorder>, std::shared_ptr<void>>> watches;
  for (int i = 0; i < 50; ++i) {
    auto recorder = std::make_shared<Recorder>();
    auto handle = store_->Watch("/pods/", 1, recorder);
    ASSERT_TRUE(handle.ok());
    watches.emplace_back(recorder, *std::move(handle));
  }
  writer.join();
  for (const auto& [recorder, handle] : watches) {
    const auto changes = recorder->WaitFor(kWrites - 1);
    ASSERT_EQ(changes.size(), size_t{kWrites - 1});
    for (int i = 0; i < kWrites - 1; ++i) EXPECT_EQ(changes[i].record.revision, i + 2);
  }
}

TEST_F(StoreTest, CompactionKeepsThePresentAndRefusesThePast) {
  Revision at = Put("/pods/a/x", 0, "0");
  const Revision early = at;
  for (int i = 1; i < 20; ++i) at = Put("/pods/a/x", at, std::to_string(i));
  const Revision gone = Put("/pods/a/y", 0, "y");
  Remove("/pods/a/y", gone);
  const Revision compacted = store_->current();
  const Revision after = Put("/pods/a/z", 0, "z");
  ASSERT_TRUE(store_->Compact(compacted).ok());
  EXPECT_EQ(store_->compacted(), compacted);
  EXPECT_EQ(*store_->Get("/pods/a/x")->value, "19");
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 2u);
  EXPECT_EQ(store_->List("/pods/", "", 0, early).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Watch("/pods/", early, std::make_shared<Recorder>()).status().code(),
            StatusCode::kOutOfRange);
  auto recorder = std::make_shared<Recorder>();
  auto handle = store_->Watch("/pods/", compacted, recorder);
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(recorder->WaitFor(1)[0].record.revision, after);
  handle->reset();  // a subscription ends before its store
  Open();
  EXPECT_EQ(store_->compacted(), compacted);
  EXPECT_EQ(store_->current(), after);
  auto db = Database::Open(folder_.file("db"), true);
  EXPECT_EQ(*db->QueryInt("SELECT count(*) FROM revisions"), 2);
}

// Fault points belong to the process, so the compaction that fails runs in a child.
TEST_F(StoreTest, WhatAFailedCompactionLeftIsRemovedByTheNext) {
  store_.reset();
  const auto compact_twice = [this] {
    setenv("BERTH_FAULTS", "store.compact.before=error", 1);
    if (!base::InitFaultPoints().ok()) return 2;
    Open();
    Revision at = Put("/pods/a/x", 0, "0");
    for (int i = 1; i < 20; ++i) at = Put("/pods/a/x", at, std::to_string(i));
    if (store_->Compact(at).ok()) return 3;
    setenv("BERTH_FAULTS", "", 1);
    if (!base::InitFaultPoints().ok() || !store_->Compact(at).ok()) return 4;
    auto db = Database::Open(folder_.file("db"), true);
    return *db->QueryInt("SELECT count(*) FROM revisions") == 1 ? 0 : 1;
  };
  EXPECT_EXIT(std::exit(compact_twice()), testing::ExitedWithCode(0), "");
}

// Compaction drops the marks of deletions: a watcher that is about to be shown one must not miss
// it.
TEST_F(StoreTest, WatchersThatJoinDuringCompactionsMissNothing) {
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    for (int i = 0; !stop; ++i) Remove("/pods/a/x", Put("/pods/a/x", 0, std::to_string(i)));
  });
  std::jthread compactor([&] {
    while (!stop) EXPECT_TRUE(store_->Compact(store_->current()).ok());
  });
  for (int i = 0; i < 100; ++i) {
    auto recorder = std::make_shared<Recorder>();
    const Revision from = store_->current();
    const auto watch = store_->Watch("/pods/", from, recorder);
    if (!watch.ok()) {
      EXPECT_EQ(watch.status().code(), StatusCode::kOutOfRange) << watch.status();
      continue;
    }
    Revision expected = from;
    for (const Change& change : recorder->WaitFor(4)) {
      EXPECT_EQ(change.record.revision, ++expected);
    }
  }
  stop = true;
}

TEST_F(StoreTest, ManyThreadsShareTransactions) {
  std::vector<std::jthread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (!store_->Apply({fmt::format("/pods/{}/{}", t, i), 0, "v"}).ok()) ++failed;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(store_->current(), 800);
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 800u);
}

TEST_F(StoreTest, OnlyTheOwnerMayReadItsFilesWhateverTheUmask) {
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

TEST_F(StoreTest, FilesThatOthersMayReadAreClosedToThemAtTheStart) {
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

// What a person sees who deletes what filled the store: the disk gets its room back. The longest
// wait of a write meanwhile is printed, because it depends on the machine.
TEST_F(StoreTest, TheFileGetsSmallerWhenObjectsAreDeletedAndWritesGoOn) {
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
  }
  fmt::print("from {} to {} bytes during {} writes; the longest waited for {} ms\n", largest,
             size(), writes,
             std::chrono::duration_cast<std::chrono::milliseconds>(longest).count());
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 1u);
}

TEST_F(StoreTest, ADatabaseOfAnEarlierBerthIsRewrittenOnce) {
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

TEST_F(StoreTest, ASecondProcessIsRefused) {
  const auto second = Store::Open({.path = folder_.file("db")});
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, ForeignAndDamagedFilesAreRefusedAndKept) {
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

TEST(FanOutTest, AWatcherWhoseChangesCannotBeReadIsToldAndGetsNoMore) {
  FanOut fan_out(5, [](std::string_view prefix, Revision, Revision, const auto&) {
    return prefix == "/a/" ? base::Error(StatusCode::kInternal, "the disk does not answer")
                           : base::OkStatus();
  });
  const auto lost = std::make_shared<Recorder>();
  const auto other = std::make_shared<Recorder>();
  const auto first = fan_out.AddWatcher("/a/", 3, lost);
  const auto second = fan_out.AddWatcher("/", 3, other);
  EXPECT_EQ(lost->WaitForLoss().code(), StatusCode::kInternal);
  fan_out.QueueChanges({{.type = Change::Type::kCreated,
                         .record = {"/a/x", std::make_shared<const std::string>("{}"), 6},
                         .previous = nullptr}},
                       6);
  EXPECT_EQ(other->WaitFor(1).size(), 1u);
  fan_out.WaitUntilCaughtUp();
  EXPECT_EQ(lost->WaitFor(0).size(), 0u);
  EXPECT_FALSE(lost->HasProgress());
}

TEST_F(StoreTest, DestroyingAWatchWaitsAndStopsIt) {
  auto recorder = std::make_shared<Recorder>();
  auto handle = store_->Watch("/pods/", 0, recorder);
  ASSERT_TRUE(handle.ok());
  Put("/pods/a/x", 0, "one");
  recorder->WaitFor(1);
  handle->reset();
  Put("/pods/a/y", 0, "two");
  auto other = std::make_shared<Recorder>();
  auto second = store_->Watch("/pods/", store_->current() - 1, other);
  other->WaitFor(1);
  EXPECT_EQ(recorder->WaitFor(0).size(), 1u);
}

TEST_F(StoreTest, CountsWhatAListWouldShow) {
  for (int i = 0; i < 5; ++i) Put(fmt::format("/pods/a/p{}", i), 0, "{}");
  const Revision then = store_->current();
  Put("/pods/b/p", 0, "{}");
  EXPECT_EQ(*store_->Count("/pods/", "", 0), 6u);
  EXPECT_EQ(*store_->Count("/pods/", "", then), 5u);
  EXPECT_EQ(*store_->Count("/pods/", "/pods/a/p1", then), 3u);
  EXPECT_EQ(*store_->Count("/nodes/", "", 0), 0u);
  EXPECT_EQ(store_->Count("/pods/", "", then + 9).status().code(), StatusCode::kOutOfRange);
}

TEST_F(StoreTest, APageEndsWhereItIsLarge) {
  for (int i = 0; i < 4; ++i) Put(fmt::format("/pods/a/p{}", i), 0, std::string(600'000, 'x'));
  auto page = store_->List("/pods/", "", 100, 0);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->records.size(), 2u);
  EXPECT_TRUE(page->more);
  page = store_->List("/pods/", "/pods/a/p1", 100, 0);
  EXPECT_EQ(page->records.size(), 2u);
  EXPECT_FALSE(page->more);
  EXPECT_EQ(store_->List("/pods/", "", 0, 0)->records.size(), 4u);
}

TEST_F(StoreTest, TellsHistoryInPieces) {
  const Revision since = store_->current();
  for (int i = 0; i < 5; ++i) Put(fmt::format("/pods/a/p{}", i), 0, "{}");
  Put("/nodes/n", 0, "{}");
  const auto first = store_->ReadChanges("/pods/", since, 3);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->changes.size(), 3u);
  EXPECT_EQ(first->through, first->changes.back().record.revision);
  const auto second = store_->ReadChanges("/pods/", first->through, 3);
  EXPECT_EQ(second->changes.size(), 2u);
  EXPECT_EQ(second->through, store_->current());
  EXPECT_TRUE(store_->ReadChanges("/pods/", second->through, 3)->changes.empty());
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  EXPECT_EQ(store_->ReadChanges("/pods/", since, 3).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace berth::store
