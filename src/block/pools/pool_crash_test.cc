// A process that makes, grows, copies and removes volumes is killed at each of its fault points in
// turn; the pool that is opened after it must be whole, and the same work must end well.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "base/fault.h"
#include "block/pools/pool.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

constexpr int kPoolWorkFailed = 3;

class PoolCrashTest : public testing::Test {
 protected:
  std::unique_ptr<Pool> Open(const std::string& folder) {
    auto pool = Pool::Open(folder, {}, *mounter_, clock_);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }

  // Every durable thing that a pool does, each step idempotent as a CO repeats it.
  static base::Status Work(Pool& pool) {
    const NewVolume wanted{.name = "a", .size = {.required = kMiB}, .access = AccessType::kBlock};
    ASSIGN_OR_RETURN(const Record a, pool.CreateVolume(wanted));
    RETURN_IF_ERROR(pool.GrowVolume(a.id, {.required = 2 * kMiB}));
    ASSIGN_OR_RETURN(const Record snapshot, pool.CreateSnapshot(a.id, "s"));
    ASSIGN_OR_RETURN(const Record copy,
                     pool.CreateVolume({.name = "copy",
                                        .access = AccessType::kBlock,
                                        .source = {Kind::kSnapshot, snapshot.id}}));
    ASSIGN_OR_RETURN(const GroupRecord group, pool.CreateGroup("g", {a.id, copy.id}));
    RETURN_IF_ERROR(pool.DeleteGroup(group.id));
    RETURN_IF_ERROR(pool.DeleteVolume(copy.id));
    return pool.DeleteSnapshot(snapshot.id);
  }

  // Runs Work on a pool in a process of its own; gives how that ended.
  int RunInProcess(const std::string& folder, const std::string& faults, const std::string& log) {
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", faults.c_str(), 1);
      if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
      if (!base::InitFaultPoints().ok()) _exit(kPoolWorkFailed);
      auto pool = Pool::Open(folder, {}, *mounter_, clock_);
      _exit(pool.ok() && Work(**pool).ok() ? 0 : kPoolWorkFailed);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  std::set<std::string> FaultPoints() {
    const platform::TempFolder folder;
    EXPECT_EQ(RunInProcess(folder / "pool", "", folder / "log"), 0);
    std::ifstream log(folder / "log");
    std::set<std::string> names;
    for (std::string line; std::getline(log, line);) names.insert(line);
    return names;
  }

  // Records and images go by pairs, and the images have the size that the records say.
  static void ExpectWhole(const Pool& pool) {
    for (const Kind kind : {Kind::kVolume, Kind::kSnapshot}) {
      const auto names = platform::ListFolder(pool.paths().Folder(kind));
      ASSERT_TRUE(names.ok());
      const std::vector<Record> records = pool.List(kind);
      EXPECT_EQ(names->size(), 2 * records.size());
      for (const Record& record : records) {
        EXPECT_TRUE(pool.CheckImage(record).ok()) << pool.CheckImage(record);
        EXPECT_EQ(record.growing_from, 0);
        // There is a group, with all its members, or nothing of it.
        if (record.group.empty()) continue;
        const auto group = pool.GetGroup(record.group);
        ASSERT_TRUE(group.ok()) << group.status();
        for (const GroupRecord::Member& member : group->members) {
          EXPECT_TRUE(pool.Get(Kind::kSnapshot, member.snapshot_id).ok());
        }
      }
    }
    const auto groups = platform::ListFolder(pool.paths().Groups());
    ASSERT_TRUE(groups.ok());
    for (const std::string& name : *groups) {
      EXPECT_TRUE(pool.GetGroup(name.substr(0, name.find('.'))).ok()) << name;
    }
  }

  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  base::SystemClock clock_;
};

TEST_F(PoolCrashTest, APoolIsWholeAfterAKillAnywhere) {
  const std::set<std::string> points = FaultPoints();
  ASSERT_GT(points.size(), 10u);
  for (const std::string& point : points) {
    for (int passage = 1; passage <= 3; ++passage) {
      SCOPED_TRACE(fmt::format("{} at passage {}", point, passage));
      const platform::TempFolder folder;
      const int status =
          RunInProcess(folder / "pool", fmt::format("{}=crash@{}", point, passage), "");
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);  // the point is not passed that often
        EXPECT_GT(passage, 1);
        break;
      }
      const std::unique_ptr<Pool> pool = Open(folder / "pool");
      ASSERT_NE(pool, nullptr);
      ExpectWhole(*pool);
      const base::Status again = Work(*pool);
      EXPECT_TRUE(again.ok()) << again;
      ExpectWhole(*pool);
      EXPECT_EQ(pool->List(Kind::kVolume).size(), 1u);
    }
  }
}

TEST_F(PoolCrashTest, AStepThatFailsIsTakenBackAndWorksWhenRepeated) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    const platform::TempFolder folder;
    const int status = RunInProcess(folder / "pool", point + "=error", "");
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kPoolWorkFailed);
    const std::unique_ptr<Pool> pool = Open(folder / "pool");
    ASSERT_NE(pool, nullptr);
    ExpectWhole(*pool);
    const base::Status again = Work(*pool);
    EXPECT_TRUE(again.ok()) << again;
  }
}

}  // namespace
}  // namespace berth::block
