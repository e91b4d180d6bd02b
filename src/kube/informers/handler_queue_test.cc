#include "kube/informers/handler_queue.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

namespace berth::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// An informer without an API: a queue, and the objects whose changes it delivers.
class HandlerQueueTest : public ::testing::Test, public HandlerQueue::Objects {
 protected:
  std::vector<std::string> ListKeys() override {
    std::vector<std::string> keys;
    for (const auto& [key, kept] : objects_) keys.push_back(key);
    return keys;
  }

  HandlerQueue::ObjectPtr TakeForRound(const std::string& key, uint32_t round) override {
    const auto it = objects_.find(key);
    if (it == objects_.end() || std::exchange(it->second.round, round) == round) return nullptr;
    ++unpacked_;
    return it->second.object;
  }

  void Put(const std::string& key, int value) {
    const auto [it, added] = objects_.try_emplace(key, Kept{nullptr, queue_.round()});
    auto after = std::make_shared<api::Object>(Json{{"value", value}});
    auto before = std::exchange(it->second.object, after);
    queue_.AddChange({key, std::move(before), std::move(after)}, it->second.round);
  }

  void Remove(const std::string& key) {
    const auto it = objects_.find(key);
    const Kept kept = it->second;
    objects_.erase(it);
    queue_.AddChange({key, kept.object, nullptr}, kept.round);
  }

  // What one handler was told, and what it knows by that.
  struct Listener {
    std::vector<std::string> seen;
    std::map<std::string, int64_t> known;
  };

  Listener& Listen() {
    auto& listener = *listeners_.emplace_back(std::make_unique<Listener>());
    queue_.Add([&listener](const HandlerQueue::Change& change) {
      const bool is_known = listener.known.contains(change.key);
      EXPECT_EQ(change.before != nullptr, is_known) << change.key;
      if (change.after == nullptr) {
        listener.seen.push_back("-" + change.key);
        listener.known.erase(change.key);
        return;
      }
      const auto value = change.after->json().at("value").get<int64_t>();
      listener.seen.push_back(fmt::format("{}={}", change.key, value));
      listener.known[change.key] = value;
    });
    return listener;
  }

  // Returns whether there was something to deliver.
  bool Deliver() {
    HandlerQueue::Delivery delivery;
    if (!queue_.TakeDelivery(*this, delivery)) return false;
    if (delivery.sync) synced_ = true;
    for (const auto& handler : delivery.handlers) (*handler)(delivery.change);
    return true;
  }
  void DeliverAll() {
    while (Deliver()) continue;
  }

  struct Kept {
    HandlerQueue::ObjectPtr object;
    uint32_t round = 0;
  };
  HandlerQueue queue_;
  std::map<std::string, Kept> objects_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  int unpacked_ = 0;
  bool synced_ = false;
};

TEST_F(HandlerQueueTest, HandlersThatAreNewAtOnceGetEachObjectTogether) {
  Put("a", 1);
  Put("b", 2);
  Listener& first = Listen();
  Listener& second = Listen();
  DeliverAll();
  EXPECT_THAT(first.seen, UnorderedElementsAre("a=1", "b=2"));
  EXPECT_EQ(second.seen, first.seen);
  EXPECT_EQ(unpacked_, 2);
}

TEST_F(HandlerQueueTest, AHandlerThatIsNewInARoundGetsTheNextOne) {
  Put("a", 1);
  Put("b", 2);
  Listener& first = Listen();
  ASSERT_TRUE(Deliver());
  Listener& second = Listen();
  Put("c", 3);
  DeliverAll();
  EXPECT_THAT(first.seen, UnorderedElementsAre("a=1", "b=2", "c=3"));
  EXPECT_THAT(second.seen, UnorderedElementsAre("a=1", "b=2", "c=3"));
}

TEST_F(HandlerQueueTest, AnObjectThatChangesInARoundIsToldOnceAsItIs) {
  Put("a", 1);
  Put("b", 1);
  Listener& listener = Listen();
  ASSERT_TRUE(Deliver());
  ASSERT_EQ(listener.seen.size(), 1u);
  const std::string told = listener.known.begin()->first;
  const std::string waits = told == "a" ? "b" : "a";
  Put(told, 2);
  Put(waits, 2);
  DeliverAll();
  EXPECT_THAT(listener.seen, ElementsAre(told + "=1", waits + "=2", told + "=2"));
}

TEST_F(HandlerQueueTest, AnObjectThatIsDeletedBeforeItsTurnIsNeverTold) {
  Put("a", 1);
  Listener& listener = Listen();
  Remove("a");
  DeliverAll();
  EXPECT_THAT(listener.seen, IsEmpty());
}

TEST_F(HandlerQueueTest, TheFirstListIsDeliveredWhenNewHandlersHaveItToo) {
  Listener& first = Listen();
  DeliverAll();
  Put("a", 1);
  Put("b", 1);
  queue_.AddSync();
  Listener& second = Listen();
  while (!synced_) ASSERT_TRUE(Deliver());
  EXPECT_EQ(first.seen.size(), 2u);
  EXPECT_EQ(second.seen.size(), 2u);
}

TEST_F(HandlerQueueTest, ARemovedHandlerHearsNothing) {
  Listener& listener = Listen();
  DeliverAll();
  queue_.Remove({0});
  Put("a", 1);
  DeliverAll();
  EXPECT_THAT(listener.seen, IsEmpty());
}

// Whatever happens in whatever order, each handler hears of an object first that it is there, then
// of its changes, and in the end knows all of them.
TEST_F(HandlerQueueTest, InAnyOrderEachHandlerKnowsAllInTheEnd) {
  std::minstd_rand random(7);
  for (int step = 0; step < 20'000; ++step) {
    const std::string key = fmt::format("k{}", random() % 20);
    switch (random() % 8) {
      case 0:
        if (listeners_.size() < 200) Listen();
        break;
      case 1:
        if (objects_.contains(key)) Remove(key);
        break;
      case 2:
      case 3:
        Put(key, step);
        break;
      default:
        Deliver();
    }
  }
  DeliverAll();
  std::map<std::string, int64_t> all;
  for (const auto& [key, kept] : objects_) all[key] = kept.object->json().at("value");
  ASSERT_EQ(listeners_.size(), 200u);
  for (const auto& listener : listeners_) ASSERT_EQ(listener->known, all);
}

}  // namespace
}  // namespace berth::kube
