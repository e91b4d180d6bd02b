#include "base/flight.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/utf8.h"

namespace berth::base {
namespace {

class FlightTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flight-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/node.flight"; }
  std::unique_ptr<FlightRecorder> Open(size_t rings = 512) {
    auto recorder = FlightRecorder::Open(Path(), "node", {.rings = rings});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }
  FlightLog Read() {
    const auto log = ReadFlightLog(Path());
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *log : FlightLog{};
  }
  static void Call(FlightRecorder& recorder, const std::string& key, const std::string& what,
                   const Status& status) {
    const FlightScope scope(&recorder, key);
    FlightSpan span(FlightKind::kCall, what, "/run/driver.sock");
    span.End(status);
  }

  std::string folder_;
};

TEST_F(FlightTest, ACallShowsWhileItRunsAndHowItEnded) {
  const auto recorder = Open();
  const FlightScope scope(recorder.get(), "volumes v1");
  FlightSpan span(FlightKind::kCall, "NodeStageVolume", "/run/driver.sock");
  FlightLog log = Read();
  EXPECT_EQ(log.role, "node");
  EXPECT_EQ(log.pid, getpid());
  EXPECT_TRUE(log.alive);
  // If nobody can tell when the process began, it is not taken for the role.
  EXPECT_FALSE(ReadFlightLog(Path(), [](pid_t) { return uint64_t{0}; })->alive);
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_TRUE(log.records[0].running);
  EXPECT_EQ(log.records[0].key, "volumes v1");
  EXPECT_EQ(log.records[0].what, "NodeStageVolume");
  EXPECT_EQ(log.records[0].target, "/run/driver.sock");

  span.SetPid(77);
  span.End(Error(StatusCode::kInternal, "NodeStageVolume: no such pool"));
  log = Read();
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_FALSE(log.records[0].running);
  EXPECT_EQ(log.records[0].pid, 77);
  EXPECT_EQ(log.records[0].code, StatusCode::kInternal);
  EXPECT_EQ(log.records[0].message, "NodeStageVolume: no such pool");
  EXPECT_GE(log.records[0].end, log.records[0].start);
}

TEST_F(FlightTest, TheSameOutcomeIsCountedAndPushesNothingOut) {
  const auto recorder = Open();
  Call(*recorder, "k", "NodeStageVolume", OkStatus());
  const WallTime begin = std::chrono::system_clock::now();
  for (int i = 0; i < 100; ++i) {
    Call(*recorder, "k", "NodePublishVolume", Error(StatusCode::kInternal, "broken"));
    const FlightScope scope(recorder.get(), "k");
    FlightScope::RecordRetry(Error(StatusCode::kInternal, "broken"), std::chrono::seconds(9));
  }
  const FlightLog log = Read();
  ASSERT_EQ(log.records.size(), 3u);
  EXPECT_EQ(log.records[0].what, "NodeStageVolume");
  EXPECT_EQ(log.records[1].what, "NodePublishVolume");
  EXPECT_EQ(log.records[1].count, 100u);
  EXPECT_GE(log.records[1].first, begin);
  EXPECT_LT(log.records[1].first, log.records[1].start);
  EXPECT_EQ(log.records[2].kind, FlightKind::kRetry);
  EXPECT_GT(log.records[2].end, std::chrono::system_clock::now());
}

TEST_F(FlightTest, ARetryIsForgottenOnceTheWorkIsDone) {
  const auto recorder = Open();
  const FlightScope scope(recorder.get(), "k");
  FlightScope::RemoveRetries();  // makes no ring
  EXPECT_TRUE(Read().records.empty());
  FlightScope::RecordRetry(Error(StatusCode::kInternal, "broken"), std::chrono::seconds(9));
  EXPECT_EQ(Read().records.size(), 1u);
  FlightScope::RemoveRetries();
  EXPECT_TRUE(Read().records.empty());
}

TEST_F(FlightTest, ARingIsBoundedAndNeverDropsWhatRuns) {
  const auto recorder = Open();
  const FlightScope scope(recorder.get(), "k");
  FlightSpan hangs(FlightKind::kCall, "Hangs", "");
  for (int i = 0; i < 500; ++i) Call(*recorder, "k", fmt::format("Call{}", i), OkStatus());
  const FlightLog log = Read();
  EXPECT_LE(log.records.size(), 31u);
  EXPECT_EQ(log.records.front().what, "Hangs");
  EXPECT_EQ(log.records.back().what, "Call499");
  EXPECT_LT(std::filesystem::file_size(Path()), 64u * 1024);
}

TEST_F(FlightTest, ThreadsThatBeginARingTogetherLoseNothing) {
  const auto recorder = Open();
  for (int round = 0; round < 50; ++round) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        Call(*recorder, fmt::format("k{}", round), fmt::format("Call{}", i), OkStatus());
      });
    }
  }
  EXPECT_EQ(Read().records.size(), 50u * 8);
}

TEST_F(FlightTest, TheVolumeThatWasIdleLongestMakesRoom) {
  const auto recorder = Open(2);
  Call(*recorder, "a", "A", OkStatus());
  Call(*recorder, "b", "B", OkStatus());
  Call(*recorder, "a", "A", OkStatus());
  Call(*recorder, "c", "C", OkStatus());
  std::vector<std::string> keys;
  for (const FlightRecord& record : Read().records) keys.push_back(record.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "c"}));
}

TEST_F(FlightTest, AKilledRoleLeavesItsRecordAndTheNextOneGoesOn) {
  const pid_t child = fork();
  if (child == 0) {
    auto recorder = FlightRecorder::Open(Path(), "node");
    const FlightScope scope(recorder->get(), "k");
    Call(**recorder, "k", "Done", OkStatus());
    FlightSpan hangs(FlightKind::kCall, "Hangs", "");
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  FlightLog log = Read();
  EXPECT_FALSE(log.alive);
  ASSERT_EQ(log.records.size(), 2u);
  EXPECT_TRUE(log.records[1].interrupted);
  EXPECT_FALSE(log.records[1].running);

  const auto recorder = Open();
  Call(*recorder, "k", "Done", OkStatus());
  log = Read();
  EXPECT_TRUE(log.alive);
  ASSERT_EQ(log.records.size(), 2u);
  EXPECT_TRUE(log.records[0].interrupted);
  EXPECT_EQ(log.records[1].what, "Done");
  EXPECT_EQ(log.records[1].count, 2u);
}

TEST_F(FlightTest, ATornRecordIsSkipped) {
  {
    const auto recorder = Open();
    Call(*recorder, "k", "First", OkStatus());
    Call(*recorder, "k", "Second", OkStatus());
  }
  std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 1024 + 100);  // in the first record
  file.write("torn", 4);
  file.close();
  const FlightLog log = Read();
  ASSERT_EQ(log.records.size(), 1u);
  EXPECT_EQ(log.records[0].what, "Second");
}

TEST_F(FlightTest, AFileOfAnotherFormatIsBegunAnew) {
  std::ofstream(Path()) << "something else";
  EXPECT_EQ(ReadFlightLog(Path()).status().code(), StatusCode::kInvalidArgument);
  const auto recorder = Open();
  Call(*recorder, "k", "Call", OkStatus());
  EXPECT_EQ(Read().records.size(), 1u);
  EXPECT_EQ(ReadFlightLog(folder_ + "/none").status().code(), StatusCode::kNotFound);
}

TEST_F(FlightTest, WithoutAScopeNothingIsRecorded) {
  const auto recorder = Open();
  FlightSpan span(FlightKind::kCall, "Call", "");
  span.End(OkStatus());
  {
    const FlightScope none(nullptr, "k");
    FlightSpan other(FlightKind::kCall, "Call", "");
  }
  EXPECT_TRUE(Read().records.empty());
}

TEST_F(FlightTest, LongTextsAreCutAndLongKeysStayApart) {
  const auto recorder = Open();
  const std::string key(2000, 'k');
  Call(*recorder, key + "1", std::string(1000, 'w'),
       Error(StatusCode::kInternal, "{}", std::string(5000, 'm')));
  Call(*recorder, key + "2", "Call", OkStatus());
  const FlightLog log = Read();
  ASSERT_EQ(log.records.size(), 2u);
  EXPECT_NE(log.records[0].key, log.records[1].key);
  EXPECT_EQ(log.records[0].message.substr(0, 3), "mmm");
}

TEST_F(FlightTest, ALongReasonKeepsItsBeginningAndItsEnd) {
  const auto recorder = Open();
  std::string middle;
  while (middle.size() < 2000) middle += "\u00e9";
  Call(*recorder, "k", "NodeStageVolume",
       Error(StatusCode::kDataLoss, "stage volume 'v': {}: image 'v.img' is missing", middle));
  const std::string message = Read().records.at(0).message;
  EXPECT_TRUE(message.starts_with("stage volume 'v': ")) << message;
  EXPECT_TRUE(message.ends_with(": image 'v.img' is missing")) << message;
  EXPECT_NE(message.find(" ... "), std::string::npos) << message;
  EXPECT_TRUE(IsUtf8(message));
  // A reason that fits is whole.
  const std::string fits(783, 'm');
  Call(*recorder, "k2", "NodeStageVolume", Error(StatusCode::kInternal, "{}", fits));
  EXPECT_EQ(Read().records.at(1).message, fits);
}

}  // namespace
}  // namespace berth::base
