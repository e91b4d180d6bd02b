#include "store/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <latch>
#include <new>
#include <thread>

#include "base/fault.h"
#include "base/mutex.h"
#include "store/fan_out.h"
#include "store/store_fixture.h"

namespace berth::store {
namespace {

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
