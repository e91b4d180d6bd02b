#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"
#include "kube/informers/informers.h"

namespace berth::kube {
namespace {

using api::kinds::kPod;
using base::MutexLock;
using base::StatusCode;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using nlohmann::literals::operator""_json;

Json Pod(std::string_view name, std::string_view node = "") {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "default"}}},
          {"spec", {{"nodeName", node}}}};
}

// Records the changes that an informer delivers.
class Recorder {
 public:
  std::function<void(const Informer<api::Pod>::TypedChange&)> Handler() {
    return [this](const Informer<api::Pod>::TypedChange& change) {
      MutexLock lock(mutex_);
      seen_.push_back(
          fmt::format("{}{} {}", change.before ? "-" : "", change.after ? "+" : "", change.key));
      told_.NotifyAll();
    };
  }
  std::vector<std::string> seen() {
    MutexLock lock(mutex_);
    return seen_;
  }
  bool WaitFor(const std::vector<std::string>& changes) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mutex_);
    while (seen_ != changes) {
      if (!told_.WaitUntil(mutex_, deadline)) return seen_ == changes;
    }
    return true;
  }

 private:
  base::Mutex mutex_;
  base::CondVar told_;
  std::vector<std::string> seen_ ABSL_GUARDED_BY(mutex_);
};

class InformerTest : public testing::Test {
 protected:
  bool Eventually(const std::function<bool()>& condition) { return client_.WaitUntil(condition); }
  bool Sync(Informer<api::Pod>& informer) {
    informer.Start();
    return informer.WaitForSync(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  }

  FakeClient client_;
  Recorder recorder_;
};

TEST_F(InformerTest, ListsThenFollows) {
  client_.Add(Pod("a"));
  Informer<api::Pod> informer(client_);
  informer.AddHandler(recorder_.Handler());
  EXPECT_FALSE(informer.synced());
  ASSERT_TRUE(Sync(informer));
  EXPECT_THAT(recorder_.seen(), ElementsAre("+ default/a"))
      << "handlers were called before it is synced";
  client_.Add(Pod("b"));
  client_.Add(Pod("a", "n"));
  client_.Remove(kPod, "default", "b");
  ASSERT_TRUE(Eventually([&] { return recorder_.seen().size() == 4; }));
  EXPECT_THAT(recorder_.seen(),
              ElementsAre("+ default/a", "+ default/b", "-+ default/a", "- default/b"));
  EXPECT_EQ(informer.Get("default", "a")->node_name(), "n");
  EXPECT_EQ(informer.Get("default", "b"), nullptr);
  EXPECT_EQ(informer.List().size(), 1u);
}

// Pages of more objects than this are too long for it.
class NarrowClient : public FakeClient {
 public:
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    const bool first = options.continue_token.empty();
    ++(first ? first_pages : later_pages);
    if (options.limit > (first ? most : most_later)) return base::Error(why, "too long");
    return FakeClient::List(kind, ns, options);
  }

  int64_t most = 700;
  int64_t most_later = 700;
  StatusCode why = StatusCode::kResourceExhausted;
  std::atomic<int> first_pages = 0;
  std::atomic<int> later_pages = 0;
};

TEST_F(InformerTest, AllPagesOfALongListAreRead) {
  NarrowClient client;
  for (int i = 0; i < 1903; ++i) client.Add(Pod(fmt::format("p{}", i)));
  Informer<api::Pod> informer(client);
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.List().size(), 1903u);
}

TEST_F(InformerTest, LargeObjectsAreReadOneByOneAndTheOthersTogether) {
  NarrowClient client;
  client.most = 1;
  client.most_later = INT64_MAX;
  for (int i = 0; i < 2000; ++i) client.Add(Pod(fmt::format("p{}", i)));
  Informer<api::Pod> informer(client);
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.List().size(), 2000u);
  EXPECT_LT(client.later_pages, 100) << "a page is longer again after some good ones";
}

TEST_F(InformerTest, APageThatTakesTooLongIsFollowedByAShorterOne) {
  NarrowClient client;
  client.why = StatusCode::kDeadlineExceeded;
  client.most_later = 200;
  for (int i = 0; i < 1903; ++i) client.Add(Pod(fmt::format("p{}", i)));
  Informer<api::Pod> informer(client);
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.List().size(), 1903u);
  EXPECT_EQ(client.first_pages, 3) << "of 10,000, 2,500 and 625, after which the list goes on";
}

TEST_F(InformerTest, ALateHandlerGetsWhatIsThere) {
  client_.Add(Pod("a"));
  client_.Add(Pod("b"));
  Informer<api::Pod> informer(client_);
  ASSERT_TRUE(Sync(informer));
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Eventually([&] { return recorder_.seen().size() == 2; }));
  EXPECT_THAT(recorder_.seen(), UnorderedElementsAre("+ default/a", "+ default/b"));
  client_.Remove(kPod, "default", "a");
  ASSERT_TRUE(Eventually([&] { return recorder_.seen().size() == 3; }));
  EXPECT_EQ(recorder_.seen().back(), "- default/a");
}

TEST_F(InformerTest, IndexesFollowTheObjects) {
  client_.Add(Pod("a", "n1"));
  client_.Add(Pod("b", "n1"));
  Informer<api::Pod> informer(client_);
  informer.AddIndex("node", [](const api::Pod& pod) {
    return std::vector<std::string>{pod.String({"spec", "nodeName"})};
  });
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.ByIndex("node", "n1").size(), 2u);
  client_.Add(Pod("a", "n2"));
  client_.Remove(kPod, "default", "b");
  ASSERT_TRUE(Eventually([&] { return informer.ByIndex("node", "n1").empty(); }));
  ASSERT_EQ(informer.ByIndex("node", "n2").size(), 1u);
  EXPECT_EQ(informer.ByIndex("node", "n2")[0]->name(), "a");
  EXPECT_TRUE(informer.ByIndex("none", "n1").empty());
}

TEST_F(InformerTest, OnlyWhatTheOptionsSelectIsKept) {
  client_.Add(Pod("a", "n1"));
  client_.Add(Pod("b", "n2"));
  Informer<api::Pod> informer(client_, {.field_selector = "spec.nodeName=n1"});
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.List().size(), 1u);
  informer.Observe(client_.Add(Pod("c", "n2")));
  EXPECT_EQ(informer.Get("default", "c"), nullptr);
  client_.Add(Pod("a", "n2"));
  ASSERT_TRUE(Eventually([&] { return informer.List().empty(); }));
}

TEST_F(InformerTest, AnEndedWatchIsContinuedWithoutANewList) {
  client_.Add(Pod("a"));
  Informer<api::Pod> informer(client_);
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Sync(informer));
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  // A new list would meet this failure.
  client_.FailNext("list", "pods",
                   base::Error(StatusCode::kInternal, "no second list was expected"));
  client_.EndWatches();
  client_.Add(Pod("b"));
  ASSERT_TRUE(Eventually([&] { return recorder_.seen().size() == 2; }));
  EXPECT_EQ(client_.List(kPod, "", {}).status().code(), StatusCode::kInternal)
      << "the failure is still there";
}

TEST_F(InformerTest, WhatWasMissedIsToldAfterANewList) {
  client_.Add(Pod("stays"));
  client_.Add(Pod("goes"));
  client_.Add(Pod("changes"));
  Informer<api::Pod> informer(client_);
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Sync(informer));
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "down"));
  client_.Remove(kPod, "default", "goes");
  client_.Add(Pod("changes", "n"));
  client_.Add(Pod("comes"));
  client_.Compact();
  EXPECT_NE(informer.Get("default", "goes"), nullptr) << "the copy stays as it was";
  client_.SetOutage(base::OkStatus());
  ASSERT_TRUE(Eventually([&] { return recorder_.seen().size() == 6; }));
  auto seen = recorder_.seen();
  EXPECT_THAT(std::vector(seen.begin() + 3, seen.end()),
              UnorderedElementsAre("-+ default/changes", "+ default/comes", "- default/goes"));
}

TEST_F(InformerTest, AnApiThatIsNotThereYetIsWaitedFor) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "not up"));
  client_.Add(Pod("a"));
  Informers informers(client_);
  auto& pods = informers.Of<api::Pod>();
  EXPECT_EQ(&pods, &informers.Of<api::Pod>()) << "one informer a kind";
  informers.Start();
  const Status early = informers.WaitForSync(std::chrono::milliseconds(50));
  EXPECT_EQ(early.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(base::Message(early).find("pods"), std::string_view::npos);
  client_.SetOutage(base::OkStatus());
  ASSERT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
  EXPECT_EQ(pods.List().size(), 1u);
}

TEST_F(InformerTest, OwnWritesAreSeenAtOnceAndToldOnce) {
  Informer<api::Pod> informer(client_);
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Sync(informer));
  const Json first = client_.Create(kPod, "default", Pod("a")).value();
  informer.Observe(first);
  EXPECT_NE(informer.Get("default", "a"), nullptr);
  client_.Add(Pod("end"));
  ASSERT_TRUE(Eventually([&] { return informer.Get("default", "end") != nullptr; }));
  EXPECT_THAT(recorder_.seen(), ElementsAre("+ default/a", "+ default/end"));
}

TEST_F(InformerTest, AnOldObservationChangesNothing) {
  Informer<api::Pod> informer(client_);
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Sync(informer));
  const Json old = client_.Add(Pod("a", "old"));
  client_.Add(Pod("a", "new"));
  const Json gone = client_.Add(Pod("gone"));
  client_.Remove(kPod, "default", "gone");
  client_.Add(Pod("end"));
  ASSERT_TRUE(Eventually([&] { return informer.Get("default", "end") != nullptr; }));
  informer.Observe(old);
  EXPECT_EQ(informer.Get("default", "a")->node_name(), "new");
  informer.Observe(gone);
  EXPECT_EQ(informer.Get("default", "gone"), nullptr) << "a deleted object does not come back";
}

TEST_F(InformerTest, AHandlerMayObserve) {
  Informer<api::Pod> informer(client_);
  std::atomic<int> calls = 0;
  const Json other = client_.Add(Pod("other"));
  informer.AddHandler([&](const Informer<api::Pod>::TypedChange& change) {
    ++calls;
    if (change.key != "default/a") return;
    Json newer = other;
    newer["metadata"]["resourceVersion"] = "1000000";
    newer["spec"]["nodeName"] = "observed";
    informer.Observe(newer);
  });
  ASSERT_TRUE(Sync(informer));
  client_.Add(Pod("a"));
  ASSERT_TRUE(Eventually([&] { return calls == 3; }));
  EXPECT_EQ(informer.Get("default", "other")->node_name(), "observed");
}

// An API whose store is replaced by `restored`, and that calls `during_list` while it lists.
class RestoredClient : public FakeClient {
 public:
  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    StatusOr<ListResult> result =
        is_restored ? restored.List(kind, ns, options) : FakeClient::List(kind, ns, options);
    if (during_list) std::exchange(during_list, nullptr)();
    return result;
  }
  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override {
    return is_restored ? restored.Watch(kind, ns, options, std::move(stop), on_event)
                       : FakeClient::Watch(kind, ns, options, std::move(stop), on_event);
  }

  FakeClient restored;
  std::atomic<bool> is_restored = false;
  std::function<void()> during_list;
};

TEST_F(InformerTest, ARestoredOlderStoreIsTakenOver) {
  RestoredClient client;
  client.Add(Pod("a", "older"));
  client.restored.Add(Pod("a", "older"));
  client.Add(Pod("a", "newer"));
  client.Add(Pod("b"));
  Informer<api::Pod> informer(client);
  ASSERT_TRUE(Sync(informer));
  // What the program itself wrote before is as lost.
  informer.Observe(client.Add(Pod("c")));
  ASSERT_EQ(informer.Get("default", "a")->node_name(), "newer");
  ASSERT_TRUE(client.WaitForWatches(kPod, 1));
  client.restored.FailNext("watch", "pods", base::Error(StatusCode::kOutOfRange, "too old"));
  client.is_restored = true;
  client.EndWatches();
  EXPECT_TRUE(Eventually([&] { return informer.Get("default", "a")->node_name() == "older"; }));
  EXPECT_TRUE(Eventually([&] { return informer.List().size() == 1; }));
  client.restored.Add(Pod("a", "next"));
  EXPECT_TRUE(Eventually([&] { return informer.Get("default", "a")->node_name() == "next"; }));
}

TEST_F(InformerTest, AWatchThatBringsNothingAtAllIsFollowedByAList) {
  RestoredClient client;
  client.restored.Add(Pod("a", "older"));
  client.Add(Pod("a", "newer"));
  client.Add(Pod("a", "newest"));
  Informer<api::Pod> informer(client);
  ASSERT_TRUE(Sync(informer));
  ASSERT_TRUE(client.WaitForWatches(kPod, 1));
  client.is_restored = true;
  client.EndWatches();
  // This watch is from a version that the restored store has not reached.
  ASSERT_TRUE(client.restored.WaitForWatches(kPod, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // no short one
  client.restored.EndWatches();
  EXPECT_TRUE(Eventually([&] { return informer.Get("default", "a")->node_name() == "older"; }));
}

TEST_F(InformerTest, AnOwnWriteDuringAListOutlivesIt) {
  RestoredClient client;
  client.Add(Pod("a", "older"));
  Informer<api::Pod> informer(client);
  informer.AddHandler(recorder_.Handler());
  ASSERT_TRUE(Sync(informer));
  ASSERT_TRUE(client.WaitForWatches(kPod, 1));
  client.during_list = [&] {
    informer.Observe(client.Add(Pod("a", "newer")));
    informer.Observe(client.Add(Pod("b")));
  };
  client.FailNext("watch", "pods", base::Error(StatusCode::kOutOfRange, "too old"));
  client.EndWatches();
  const std::vector<std::string> changes = {"+ default/a", "-+ default/a", "+ default/b"};
  ASSERT_TRUE(recorder_.WaitFor(changes));
  ASSERT_TRUE(client.WaitForWatches(kPod, 1));
  EXPECT_EQ(recorder_.seen(), changes) << "the list, which is older, took nothing back";
  EXPECT_EQ(informer.Get("default", "a")->node_name(), "newer");
}

TEST_F(InformerTest, StopEndsTheWatch) {
  Informer<api::Pod> informer(client_);
  ASSERT_TRUE(Sync(informer));
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  informer.Stop();
  client_.Add(Pod("a"));
  EXPECT_EQ(informer.Get("default", "a"), nullptr);
}

TEST_F(InformerTest, ManagedFieldsAreNotKept) {
  Json pod = Pod("a");
  pod["metadata"]["managedFields"] = R"([{"manager": "x"}])"_json;
  client_.Add(pod);
  Informer<api::Pod> informer(client_);
  ASSERT_TRUE(Sync(informer));
  EXPECT_FALSE(informer.Get("default", "a")->json()["metadata"].contains("managedFields"));
}

TEST_F(InformerTest, AViewSharesTheCopyAndGoesAlone) {
  client_.Add(Pod("a", "n"));
  Informers process(client_);
  const auto by_node = [](const api::Pod& pod) {
    return std::vector<std::string>{pod.node_name()};
  };
  Recorder second;
  {
    Informers first_part(process);
    first_part.Of<api::Pod>().AddHandler(recorder_.Handler());
    first_part.Of<api::Pod>().AddIndex("node", by_node);
    first_part.Start();
    ASSERT_TRUE(first_part.WaitForSync(std::chrono::seconds(10)).ok());
    EXPECT_EQ(first_part.Of<api::Pod>().ByIndex("node", "n").size(), 1u);

    // A later part sees the existing objects at once, also by an index of its own.
    Informers second_part(process);
    second_part.Of<api::Pod>().AddHandler(second.Handler());
    second_part.Of<api::Pod>().AddIndex(
        "name", [](const api::Pod& pod) { return std::vector<std::string>{pod.name()}; });
    second_part.Start();
    ASSERT_TRUE(second_part.WaitForSync(std::chrono::milliseconds(0)).ok());
    EXPECT_TRUE(second.WaitFor({"+ default/a"}));
    EXPECT_EQ(second_part.Of<api::Pod>().ByIndex("name", "a").size(), 1u);
    EXPECT_TRUE(client_.WaitForWatches(kPod, 1)) << "one watch for both";

    first_part.Stop();
    client_.Add(Pod("b", "n"));
    EXPECT_TRUE(Eventually([&] { return second.seen().size() == 2; }));
    EXPECT_EQ(recorder_.seen().size(), 1u) << "a part that stopped hears nothing";
    EXPECT_TRUE(second_part.Of<api::Pod>().ByIndex("node", "n").empty()) << "its index is gone";
  }
  client_.Add(Pod("c", "n"));
  EXPECT_TRUE(Eventually([&] { return process.Of<api::Pod>().Get("default", "c") != nullptr; }));
  EXPECT_EQ(second.seen().size(), 2u);
}

TEST_F(InformerTest, AKindOfAViewMayBeReadFromAnotherClient) {
  auto other = std::make_shared<FakeClient>();
  other->Add(Pod("theirs"));
  client_.Add(Pod("ours"));
  Informers shared(client_);
  auto& pods_of_process = shared.Of<api::Pod>();
  auto view = std::make_unique<Informers>(shared);
  view->ReadFrom<api::Pod>(other);
  auto& pods = view->Of<api::Pod>();
  auto& nodes = view->Of<api::Node>();
  shared.Start();
  view->Start();
  ASSERT_TRUE(view->WaitForSync(std::chrono::seconds(10)).ok());
  ASSERT_TRUE(shared.WaitForSync(std::chrono::seconds(10)).ok());
  EXPECT_NE(pods.Get("default", "theirs"), nullptr);
  EXPECT_EQ(pods.Get("default", "ours"), nullptr);
  EXPECT_NE(pods_of_process.Get("default", "ours"), nullptr);
  client_.Add(Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n"}}}});
  EXPECT_TRUE(Eventually([&] { return nodes.Get("n") != nullptr; })) << "other kinds are shared";
  // The set keeps the client as long as the informer reads from it.
  FakeClient& kept = *other;
  other.reset();
  kept.Add(Pod("more"));
  EXPECT_TRUE(Eventually([&] { return pods.Get("default", "more") != nullptr; }));
  view.reset();
}

TEST_F(InformerTest, ManyObjectsAreFoundChangedAndForgottenAsFewAre) {
  constexpr int kCount = 1200;
  for (int i = 0; i < kCount; ++i) client_.Add(Pod(fmt::format("p{}", i), i % 2 == 0 ? "a" : "b"));
  std::vector<std::string> moves;
  base::Mutex mutex;
  Informer<api::Pod> informer(client_);
  informer.AddHandler([&](const auto& change) {
    if (change.before == nullptr) return;
    MutexLock lock(mutex);
    moves.push_back(fmt::format("{}: {} to {}", change.key, change.before->node_name(),
                                change.after == nullptr ? "-" : change.after->node_name()));
  });
  informer.AddIndex("node",
                    [](const api::Pod& pod) { return std::vector<std::string>{pod.node_name()}; });
  ASSERT_TRUE(Sync(informer));
  EXPECT_EQ(informer.List().size(), static_cast<size_t>(kCount));
  EXPECT_EQ(informer.ByIndex("node", "a").size(), kCount / 2u);
  ASSERT_NE(informer.Get("default", "p1199"), nullptr);
  EXPECT_EQ(informer.Get("default", "p1199")->node_name(), "b");

  client_.Add(Pod("p1199", "c"));
  client_.Remove(kPod, "default", "p1000");
  client_.Add(Pod("last", "c"));
  ASSERT_TRUE(Eventually([&] { return informer.Get("default", "last") != nullptr; }));
  EXPECT_EQ(informer.ByIndex("node", "c").size(), 2u);
  EXPECT_EQ(informer.ByIndex("node", "b").size(), kCount / 2u - 1);
  EXPECT_EQ(informer.ByIndex("node", "a").size(), kCount / 2u - 1);
  EXPECT_EQ(informer.Get("default", "p1000"), nullptr);
  MutexLock lock(mutex);
  EXPECT_THAT(moves, ElementsAre("default/p1199: b to c", "default/p1000: a to -"));
}

// A cluster may lack a kind, and a role may lack the right to it.
TEST_F(InformerTest, WhatIsOptionalIsNotWaitedForWhereTheApiRefusesIt) {
  client_.StopServing(kPod);
  client_.FailNext("list", "nodes", base::Error(StatusCode::kPermissionDenied, "forbidden"));
  Informers informers(client_);
  auto& pods = informers.OfOptional<api::Pod>();
  auto& nodes = informers.OfOptional<api::Node>();
  pods.AddHandler(recorder_.Handler());
  informers.Start();
  ASSERT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
  EXPECT_THAT(base::Message(pods.CheckListed()),
              testing::HasSubstr("pods are not listed: the server could not find"));
  EXPECT_EQ(pods.CheckListed().code(), StatusCode::kFailedPrecondition);

  client_.Serve(kPod);
  client_.Add(Pod("a"));
  EXPECT_TRUE(recorder_.WaitFor({"+ default/a"})) << "taken up when it is there";
  EXPECT_TRUE(Eventually([&] { return pods.CheckListed().ok() && nodes.CheckListed().ok(); }));
}

// A role may be forbidden a kind that it does not need, and the API should not be asked for it.
TEST_F(InformerTest, WhatIsDeferredIsAskedForOnceItIsStarted) {
  client_.Add(Pod("a"));
  Informers process(client_);
  Informers view(process);
  auto& pods = view.OfDeferred<api::Pod>();
  view.Of<api::Node>();
  pods.AddHandler(recorder_.Handler());
  view.Start();
  ASSERT_TRUE(view.WaitForSync(std::chrono::seconds(10)).ok()) << "of the nodes";
  EXPECT_FALSE(pods.started());
  EXPECT_FALSE(pods.CheckListed().ok());

  pods.Start();
  EXPECT_TRUE(pods.started());
  ASSERT_TRUE(view.WaitForSync(std::chrono::seconds(10)).ok());
  EXPECT_NE(pods.Get("default", "a"), nullptr) << "it is waited for now";
  EXPECT_TRUE(recorder_.WaitFor({"+ default/a"}));
}

TEST_F(InformerTest, WhatOnePartDefersIsStartedWhereAnotherPartNeedsIt) {
  client_.Add(Pod("a"));
  for (const bool deferred_first : {true, false}) {
    Informers informers(client_);
    if (deferred_first) informers.OfDeferred<api::Pod>();
    auto& pods = informers.Of<api::Pod>();
    if (!deferred_first) informers.OfDeferred<api::Pod>();
    informers.Start();
    ASSERT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
    EXPECT_NE(pods.Get("default", "a"), nullptr);
  }
}

// The one who starts it may come late, when its process ends.
TEST_F(InformerTest, AStoppedInformerDoesNotStart) {
  client_.Add(Pod("a"));
  Informers informers(client_);
  auto& pods = informers.OfDeferred<api::Pod>();
  pods.AddHandler(recorder_.Handler());
  informers.Stop();
  pods.Start();
  EXPECT_FALSE(pods.started());
}

// A role may be allowed to list a kind, and not to watch it.
TEST_F(InformerTest, AForbiddenWatchIsAskedForLessAndLessOften) {
  class CountingClient : public FakeClient {
   public:
    StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                              const ListOptions& options) override {
      ++lists;
      return FakeClient::List(kind, ns, options);
    }
    std::atomic<int> lists = 0;
  };
  CountingClient client;
  for (int i = 0; i < 100; ++i) {
    client.FailNext("watch", "pods", base::Error(StatusCode::kPermissionDenied, "forbidden"));
  }
  Informers informers(client);
  auto& pods = informers.Of<api::Pod>();
  informers.Start();
  ASSERT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
  // A change is seen by the next list.
  client.Add(Pod("a"));
  EXPECT_TRUE(Eventually([&] { return pods.Get("default", "a") != nullptr; }));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_LE(client.lists, 8) << "without a longer pause after each there are dozens";
}

TEST_F(InformerTest, WhatIsNeededIsWaitedForAndTheReasonTold) {
  client_.StopServing(kPod);
  Informers informers(client_);
  informers.Of<api::Pod>();
  informers.OfOptional<api::Pod>();
  informers.Start();
  Status synced;
  EXPECT_TRUE(Eventually([&] {
    synced = informers.WaitForSync(std::chrono::milliseconds(50));
    return base::Message(synced).find("pods (") != std::string::npos;
  }));
  EXPECT_THAT(base::ToString(synced), testing::HasSubstr("the server could not find"));
  client_.Serve(kPod);
  EXPECT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
}

// An API that is away says nothing about its kinds.
TEST_F(InformerTest, AnAbsentApiIsWaitedForByWhatIsOptionalToo) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "connection refused"));
  Informers informers(client_);
  auto& pods = informers.OfOptional<api::Pod>();
  informers.Start();
  EXPECT_TRUE(Eventually([&] { return !pods.list_failure().ok(); }));
  EXPECT_FALSE(informers.WaitForSync(std::chrono::milliseconds(0)).ok());
}

}  // namespace
}  // namespace berth::kube
