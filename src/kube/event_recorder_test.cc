#include "kube/event_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::kube {
namespace {

using api::kinds::kEvent;
using base::EventType;
using base::StatusCode;

class EventRecorderTest : public testing::Test {
 protected:
  std::vector<Json> Events() { return client_.PeekAll(kEvent); }
  bool Counted(size_t events, int64_t count) {
    return client_.WaitUntil([&] {
      const auto all = Events();
      return all.size() == events && base::json::Int(all.back(), {"count"}) == count;
    });
  }

  base::FakeClock clock_;
  FakeClient client_{clock_};
  EventRecorder recorder_{client_, clock_, "provisioner", "node-a"};
  const base::ObjectReference claim_{.api_version = "v1",
                                     .kind = "PersistentVolumeClaim",
                                     .ns = "shop",
                                     .name = "data",
                                     .uid = "u-1"};
};

TEST_F(EventRecorderTest, WritesAnEventBesideItsObject) {
  recorder_.Record(claim_, EventType::kWarning, "ProvisioningFailed", "the pool is full");
  ASSERT_TRUE(Counted(1, 1));
  const api::Object event(Events().front());
  EXPECT_EQ(event.ns(), "shop");
  EXPECT_TRUE(event.name().starts_with("data."));
  EXPECT_EQ(event.String({"type"}), "Warning");
  EXPECT_EQ(event.String({"reason"}), "ProvisioningFailed");
  EXPECT_EQ(event.String({"message"}), "the pool is full");
  EXPECT_EQ(event.String({"involvedObject", "kind"}), "PersistentVolumeClaim");
  EXPECT_EQ(event.String({"involvedObject", "uid"}), "u-1");
  EXPECT_EQ(event.String({"source", "component"}), "provisioner");
  EXPECT_EQ(event.String({"source", "host"}), "node-a");
  EXPECT_EQ(event.String({"firstTimestamp"}), "2026-01-01T00:00:00Z");
}

TEST_F(EventRecorderTest, RepetitionsAreCountedForTenMinutes) {
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  ASSERT_TRUE(Counted(1, 1));
  clock_.Advance(std::chrono::minutes(9));
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  ASSERT_TRUE(Counted(1, 2));
  EXPECT_EQ(base::json::String(Events()[0], {"lastTimestamp"}), "2026-01-01T00:09:00Z");
  EXPECT_EQ(base::json::String(Events()[0], {"firstTimestamp"}), "2026-01-01T00:00:00Z");
  // Events are written one after the other: when this one is there, the recorder has finished the
  // former.
  recorder_.Record(claim_, EventType::kNormal, "Other", "x");
  ASSERT_TRUE(client_.WaitUntil([&] { return Events().size() == 2; }));
  clock_.Advance(std::chrono::minutes(10));
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  EXPECT_TRUE(client_.WaitUntil([&] { return Events().size() == 3; }));
}

TEST_F(EventRecorderTest, DifferentEventsAreKeptApart) {
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  recorder_.Record(claim_, EventType::kWarning, "Waiting", "for a node");
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a driver");
  base::ObjectReference other = claim_;
  other.uid = "u-2";
  recorder_.Record(other, EventType::kNormal, "Waiting", "for a node");
  EXPECT_TRUE(client_.WaitUntil([&] { return Events().size() == 4; }));
}

TEST_F(EventRecorderTest, AWithdrawnEventIsWrittenUnlessThereIsABurst) {
  recorder_.Record(claim_, EventType::kNormal, "Beginning", "of it");
  recorder_.Withdraw(claim_, EventType::kNormal, "Beginning", "of it");
  EXPECT_TRUE(Counted(1, 1));
}

TEST_F(EventRecorderTest, InABurstAWithdrawnEventIsNotWritten) {
  auto recorder = std::make_unique<EventRecorder>(client_, clock_, "provisioner", "node-a");
  recorder->Record(claim_, EventType::kNormal, "Known", "before");
  ASSERT_TRUE(Counted(1, 1));
  constexpr int kEvents = 200;
  for (int i = 0; i < kEvents; ++i) {
    recorder->Record(claim_, EventType::kNormal, "Beginning", fmt::format("{}", i));
  }
  recorder->Record(claim_, EventType::kNormal, "Known", "before");
  recorder->Withdraw(claim_, EventType::kNormal, "Known", "before");
  recorder->Withdraw(claim_, EventType::kNormal, "Beginning", fmt::format("{}", kEvents - 1));
  recorder->Withdraw(claim_, EventType::kNormal, "Never", "recorded");
  recorder.reset();  // writes all that waits
  std::multiset<std::string> written;
  for (const Json& event : Events()) written.insert(base::json::String(event, {"message"}));
  EXPECT_EQ(written.size(), kEvents);
  EXPECT_FALSE(written.contains(fmt::format("{}", kEvents - 1)));
  EXPECT_EQ(written.count("before"), 1) << "it was written before, and its repetition is counted";
}

TEST_F(EventRecorderTest, EventsOfClusterScopedObjectsAreInDefault) {
  recorder_.Record(
      {.api_version = "v1", .kind = "PersistentVolume", .ns = "", .name = "pv", .uid = ""},
      EventType::kNormal, "Bound", "to a claim");
  ASSERT_TRUE(Counted(1, 1));
  EXPECT_EQ(api::Object(Events()[0]).ns(), "default");
}

TEST_F(EventRecorderTest, AnOutageDelaysAndALostAnswerDoesNotDouble) {
  client_.LoseNextAnswer("create", "events", base::Error(StatusCode::kUnavailable, "cut"));
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a driver");
  ASSERT_TRUE(client_.WaitUntil([&] { return client_.ActionNames().size() >= 3; }));
  EXPECT_EQ(Events().size(), 2u);
}

TEST_F(EventRecorderTest, ARefusedEventIsDropped) {
  client_.FailNext("create", "events", base::Error(StatusCode::kPermissionDenied, "no"));
  recorder_.Record(claim_, EventType::kNormal, "Refused", "x");
  recorder_.Record(claim_, EventType::kNormal, "Taken", "y");
  ASSERT_TRUE(Counted(1, 1));
  EXPECT_EQ(base::json::String(Events()[0], {"reason"}), "Taken");
}

TEST_F(EventRecorderTest, AnExpiredEventIsWrittenAnew) {
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  ASSERT_TRUE(Counted(1, 1));
  client_.Remove(kEvent, "shop", api::Object(Events()[0]).name());
  recorder_.Record(claim_, EventType::kNormal, "Waiting", "for a node");
  EXPECT_TRUE(Counted(1, 2));
}

TEST_F(EventRecorderTest, LongNamesAndMessagesAreCut) {
  base::ObjectReference object = claim_;
  object.name = std::string(253, 'n');
  std::string message = "x";
  for (int i = 0; i < 2000; ++i) message += "\xc3\xa4";
  recorder_.Record(object, EventType::kNormal, "Long", message);
  ASSERT_TRUE(Counted(1, 1));
  EXPECT_LE(api::Object(Events()[0]).name().size(), 253u);
  EXPECT_EQ(base::json::String(Events()[0], {"message"}).size(), 1023u) << "no torn character";
}

TEST(EventRecorderEndTest, TheDestructorWritesWhatIsQueued) {
  FakeClient client;
  const base::SystemClock clock;
  {
    EventRecorder recorder(client, clock, "c", "h");
    for (int i = 0; i < 20; ++i) {
      recorder.Record({.api_version = "v1", .kind = "Pod", .ns = "d", .name = "p", .uid = "u"},
                      EventType::kNormal, "R", fmt::format("{}", i));
    }
  }
  EXPECT_EQ(client.PeekAll(kEvent).size(), 20u);
}

}  // namespace
}  // namespace berth::kube
