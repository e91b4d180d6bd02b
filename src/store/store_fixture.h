// The store of a test in a folder of its own, and a watcher that keeps what it is told.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/mutex.h"
#include "store/store.h"

namespace berth::store {

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

}  // namespace berth::store
