#include "rbd/dead_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/assert_ok.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kOwn = 1;

std::string AddressOf(uint64_t id) { return "10.0.0.1:0/" + std::to_string(id); }

// The users of an image in memory. A lock may be broken only after its client is fenced.
class FakeImageUsers : public ImageUsers {
 public:
  void AddLock(uint64_t id) {
    lockers_.push_back({.client_id = id,
                        .client = "client." + std::to_string(id),
                        .cookie = "auto 1",
                        .address = AddressOf(id)});
  }
  void AddWatch(uint64_t id, bool answers) {
    watchers_.push_back({.client_id = id, .address = AddressOf(id)});
    if (answers) answering_.insert(id);
  }
  void AddRecord(uint64_t id, Program program) {
    // The number of a client of the kernel is not recorded.
    clients_.push_back({.client_id = program == Program::kKernel ? 0 : id,
                        .address = AddressOf(id),
                        .node = api::NodeName("n1"),
                        .program = program});
  }
  void AddIntent(uint64_t call) {
    clients_.push_back({.client_id = call,
                        .node = api::NodeName("n1"),
                        .program = Program::kKernel,
                        .host = "10.0.0.1"});
  }
  void EndUse(uint64_t id) {
    std::erase_if(lockers_, [id](const Locker& locker) { return locker.client_id == id; });
    std::erase_if(watchers_, [id](const Watcher& watcher) { return watcher.client_id == id; });
  }
  // Runs while the watchers are asked.
  void WhileAsked(std::function<void()> change) { while_asked_ = std::move(change); }
  void FailFence() { fence_fails_ = true; }

  const std::vector<std::string>& fenced() const { return fenced_; }
  int asked() const { return asked_; }
  std::vector<uint64_t> ListLocks() const {
    std::vector<uint64_t> ids;
    for (const Locker& locker : lockers_) ids.push_back(locker.client_id);
    return ids;
  }
  std::vector<uint64_t> ListRecords() const {
    std::vector<uint64_t> ids;
    for (const ClientRecord& client : clients_) ids.push_back(client.client_id);
    return ids;
  }

  uint64_t own_id() const override { return kOwn; }
  base::StatusOr<std::vector<Locker>> ListLockers() override { return lockers_; }
  base::StatusOr<std::vector<Watcher>> ListWatchers() override { return watchers_; }
  base::StatusOr<std::vector<ClientRecord>> ListClients() override { return clients_; }
  base::StatusOr<std::set<uint64_t>> ListAnswering() override {
    ++asked_;
    if (while_asked_) while_asked_();
    return answering_;
  }
  base::Status Fence(const std::string& address) override {
    if (fence_fails_) return Error(StatusCode::kPermissionDenied, "the user may not");
    fenced_.push_back(address);
    std::erase_if(watchers_, [&](const Watcher& watcher) { return watcher.address == address; });
    return base::OkStatus();
  }
  base::Status BreakLock(const Locker& locker) override {
    EXPECT_NE(std::ranges::find(fenced_, locker.address), fenced_.end())
        << "the client could still write";
    std::erase_if(lockers_, [&](const Locker& held) { return held.client_id == locker.client_id; });
    return base::OkStatus();
  }
  base::Status RemoveClients(const std::vector<ClientRecord>& clients) override {
    for (const ClientRecord& gone : clients) {
      std::erase_if(clients_,
                    [&](const ClientRecord& client) { return client.client_id == gone.client_id; });
    }
    return base::OkStatus();
  }

 private:
  std::vector<Locker> lockers_;
  std::vector<Watcher> watchers_;
  std::vector<ClientRecord> clients_;
  std::set<uint64_t> answering_;
  std::function<void()> while_asked_;
  bool fence_fails_ = false;
  int asked_ = 0;
  std::vector<std::string> fenced_;
};

class DeadClientTest : public ::testing::Test {
 protected:
  FakeImageUsers users_;
};

TEST_F(DeadClientTest, ACallThatDiedWithTheLockIsFencedAndItsLockBroken) {
  users_.AddLock(5);
  users_.AddRecord(5, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(5)));
  EXPECT_THAT(users_.ListLocks(), IsEmpty());
  EXPECT_THAT(users_.ListRecords(), IsEmpty());
  EXPECT_EQ(users_.asked(), 0) << "who does not watch cannot answer";
}

TEST_F(DeadClientTest, ACallThatDiedAMomentAgoIsFoundByItsSilence) {
  users_.AddLock(5);
  users_.AddWatch(5, /*answers=*/false);
  users_.AddRecord(5, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(5)));
  EXPECT_THAT(users_.ListLocks(), IsEmpty());
}

TEST_F(DeadClientTest, ACallThatDiedWithAWatchAloneIsFenced) {
  users_.AddWatch(5, /*answers=*/false);
  users_.AddRecord(5, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(5)));
}

TEST_F(DeadClientTest, ACallThatAnswersGoesOn) {
  users_.AddLock(5);
  users_.AddWatch(5, /*answers=*/true);
  users_.AddRecord(5, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kCall));
  EXPECT_THAT(users_.fenced(), IsEmpty());
  EXPECT_THAT(users_.ListLocks(), ElementsAre(5));
  EXPECT_THAT(users_.ListRecords(), ElementsAre(5));
}

TEST_F(DeadClientTest, AProcessThatServesAVolumeIsNeverFenced) {
  users_.AddLock(5);
  users_.AddRecord(5, Program::kServe);
  users_.AddWatch(6, /*answers=*/false);
  users_.AddRecord(6, Program::kServe);
  users_.AddWatch(7, /*answers=*/false);
  users_.AddRecord(7, Program::kKernel);
  // The record of a call does not outweigh that of the process.
  users_.AddRecord(6, Program::kCall);
  for (const Unrecorded unrecorded : {Unrecorded::kForeign, Unrecorded::kCall}) {
    ASSERT_OK(EndDeadCalls(users_, unrecorded));
    EXPECT_THAT(users_.fenced(), IsEmpty());
    EXPECT_THAT(users_.ListLocks(), ElementsAre(5));
  }
  EXPECT_EQ(users_.asked(), 0) << "nobody waits for the answer of a process that is left alone";
}

TEST_F(DeadClientTest, AServedImageKeepsItsServerWhenACallDiesBesideIt) {
  users_.AddLock(5);
  users_.AddWatch(5, /*answers=*/false);
  users_.AddRecord(5, Program::kServe);
  users_.AddWatch(6, /*answers=*/false);
  users_.AddRecord(6, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(6)));
  EXPECT_THAT(users_.ListLocks(), ElementsAre(5));
  EXPECT_THAT(users_.ListRecords(), ElementsAre(5));
}

TEST_F(DeadClientTest, AClientThatNobodyRecordedIsACallOnlyWhereNobodyElseCanBe) {
  users_.AddLock(5);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), IsEmpty());
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kCall));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(5)));
}

TEST_F(DeadClientTest, AClientThatMayBeWhatTheKernelIsAboutToMapIsLeftAlone) {
  users_.AddLock(5);
  users_.AddIntent(9);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kCall));
  EXPECT_THAT(users_.fenced(), IsEmpty());
}

TEST_F(DeadClientTest, TheClientThatAsksIsNotFenced) {
  users_.AddLock(kOwn);
  users_.AddWatch(kOwn, /*answers=*/false);
  users_.AddRecord(kOwn, Program::kCall);
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kCall));
  EXPECT_THAT(users_.fenced(), IsEmpty());
}

TEST_F(DeadClientTest, ACallThatEndsInOrderWhileItIsAskedIsNotFenced) {
  users_.AddLock(5);
  users_.AddWatch(5, /*answers=*/false);
  users_.AddRecord(5, Program::kCall);
  users_.WhileAsked([this] { users_.EndUse(5); });
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), IsEmpty());
}

TEST_F(DeadClientTest, ACallThatComesWhileAnotherIsAskedIsNotFenced) {
  users_.AddWatch(5, /*answers=*/false);
  users_.AddRecord(5, Program::kCall);
  users_.WhileAsked([this] {
    users_.AddWatch(6, /*answers=*/false);
    users_.AddRecord(6, Program::kCall);
  });
  ASSERT_OK(EndDeadCalls(users_, Unrecorded::kForeign));
  EXPECT_THAT(users_.fenced(), ElementsAre(AddressOf(5)));
}

TEST_F(DeadClientTest, TheLockOfACallThatCannotBeFencedStays) {
  users_.AddLock(5);
  users_.AddRecord(5, Program::kCall);
  users_.FailFence();
  EXPECT_EQ(EndDeadCalls(users_, Unrecorded::kForeign).code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(users_.ListLocks(), ElementsAre(5));
  EXPECT_THAT(users_.ListRecords(), ElementsAre(5));
}

}  // namespace
}  // namespace berth::rbd
