#include "kube/fake_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "api/kinds/kinds.h"

namespace berth::kube {
namespace {

using api::kinds::kEvent;
using api::kinds::kHostMount;
using api::kinds::kPersistentVolume;
using api::kinds::kPod;
using base::StatusCode;
using nlohmann::literals::operator""_json;

class FakeClientTest : public testing::Test {
 protected:
  Json Pod(std::string_view name, Json spec = Json::object()) {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec", std::move(spec)}};
  }

  base::FakeClock clock_;
  FakeClient client_{clock_};
};

TEST_F(FakeClientTest, CreateCompletesMetadataAndDropsWhatTheServerOwns) {
  Json pod = Pod("web");
  pod["metadata"]["uid"] = "mine";
  pod["status"] = {{"phase", "Running"}};
  const auto created = client_.Create(kPod, "default", pod);
  ASSERT_TRUE(created.ok()) << created.status();
  const api::Pod view(*created);
  EXPECT_NE(view.uid(), "mine");
  EXPECT_EQ(view.String({"metadata", "creationTimestamp"}), "2026-01-01T00:00:00Z");
  EXPECT_EQ(view.Int({"metadata", "generation"}), 1);
  EXPECT_EQ(view.phase(), "Pending");
  EXPECT_FALSE(view.resource_version().empty());

  const Status again = client_.Create(kPod, "default", Pod("web")).status();
  EXPECT_EQ(again.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(base::Message(again), "pods \"web\" already exists");
  EXPECT_EQ(client_.Create(kPod, "", Pod("x")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client_.Create(kPod, "default", *created).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(FakeClientTest, GenerateNameMakesNames) {
  const auto created =
      client_.Create(kEvent, "default", R"({"metadata": {"generateName": "web-"}})"_json);
  ASSERT_TRUE(created.ok());
  const std::string name = api::Object(*created).name();
  EXPECT_EQ(name.size(), 9u);
  EXPECT_TRUE(name.starts_with("web-"));
}

TEST_F(FakeClientTest, StaleVersionsConflict) {
  const Json first = client_.Create(kPod, "default", Pod("web")).value();
  Json second = first;
  second["metadata"]["labels"]["a"] = "1";
  ASSERT_TRUE(client_.Update(kPod, second, "").ok());
  const Status stale = client_.Update(kPod, first, "").status();
  EXPECT_EQ(stale.code(), StatusCode::kAborted);
  EXPECT_EQ(base::Message(stale),
            "Operation cannot be fulfilled on pods \"web\": the object has been modified; please "
            "apply your "
            "changes to the latest version and try again");
  const std::string old = api::Object(first).resource_version();
  EXPECT_EQ(client_
                .Patch(kPod, "default", "web", PatchType::kMerge,
                       {{"metadata", {{"resourceVersion", old}}}, {"spec", {{"x", 1}}}}, "")
                .status()
                .code(),
            StatusCode::kAborted);
}

TEST_F(FakeClientTest, SomeKindsArePutOnlyWithTheirVersion) {
  const Json lease =
      R"({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "d"}})"_json;
  Json stored = client_.Add(lease);
  EXPECT_EQ(client_.Update(api::kinds::kLease, lease, "").status().code(),
            StatusCode::kInvalidArgument);
  stored["spec"]["holderIdentity"] = "me";
  EXPECT_TRUE(client_.Update(api::kinds::kLease, stored, "").ok());
  client_.Add(Pod("web"));
  EXPECT_TRUE(client_.Update(kPod, Pod("web", {{"a", 1}}), "").ok());
}

TEST_F(FakeClientTest, ANoOpUpdateChangesNothing) {
  const Json pod = client_.Create(kPod, "default", Pod("web")).value();
  EXPECT_EQ(client_.Update(kPod, pod, "").value(), pod);
}

TEST_F(FakeClientTest, StatusAndSpecAreWrittenApart) {
  client_.Add(Pod("web", {{"a", 1}}));
  const Json patch = R"({"spec": {"a": 2}, "status": {"phase": "Running"}})"_json;
  const Json main = client_.Patch(kPod, "default", "web", PatchType::kMerge, patch, "").value();
  EXPECT_EQ(main["spec"]["a"], 2);
  EXPECT_FALSE(main.contains("status"));
  const Json status =
      client_
          .Patch(
              kPod, "default", "web", PatchType::kMerge,
              R"({"spec": {"a": 3}, "status": {"phase": "Running"}, "metadata": {"labels": {"l": "1"}}})"_json,
              "status")
          .value();
  EXPECT_EQ(status["spec"]["a"], 2);
  EXPECT_EQ(status["status"]["phase"], "Running");
  EXPECT_EQ(status["metadata"]["labels"]["l"], "1");
  EXPECT_EQ(client_.Patch(kEvent, "default", "e", PatchType::kMerge, patch, "").status().code(),
            StatusCode::kNotFound);
}

TEST_F(FakeClientTest, StatusOfCustomKindsLeavesMetadataAlone) {
  client_.Add(
      R"({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "HostMount", "metadata": {"name": "m"}})"_json);
  const Json patched =
      client_
          .Patch(kHostMount, "default", "m", PatchType::kMerge,
                 R"({"metadata": {"labels": {"l": "1"}}, "status": {"phase": "Mounted"}})"_json,
                 "status")
          .value();
  EXPECT_EQ(patched["status"]["phase"], "Mounted");
  EXPECT_FALSE(patched["metadata"].contains("labels"));
}

TEST_F(FakeClientTest, FinalizersHoldADeletedObject) {
  client_.Add(R"({"apiVersion": "v1", "kind": "PersistentVolume",
                  "metadata": {"name": "pv", "finalizers": ["a", "b"]}})"_json);
  ASSERT_TRUE(client_.Delete(kPersistentVolume, "", "pv", {}).ok());
  const auto deleting = client_.Peek<api::PersistentVolume>("", "pv");
  ASSERT_TRUE(deleting.has_value());
  EXPECT_TRUE(deleting->deleting());

  EXPECT_EQ(client_
                .Patch(kPersistentVolume, "", "pv", PatchType::kMerge,
                       R"({"metadata": {"finalizers": ["a", "b", "c"]}})"_json, "")
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(client_
                  .Patch(kPersistentVolume, "", "pv", PatchType::kMerge,
                         R"({"metadata": {"finalizers": ["b"]}})"_json, "")
                  .ok());
  EXPECT_TRUE(client_.Peek<api::PersistentVolume>("", "pv").has_value());
  ASSERT_TRUE(client_
                  .Patch(kPersistentVolume, "", "pv", PatchType::kMerge,
                         R"({"metadata": {"finalizers": null}})"_json, "")
                  .ok());
  EXPECT_FALSE(client_.Peek<api::PersistentVolume>("", "pv").has_value());
  EXPECT_EQ(client_.Delete(kPersistentVolume, "", "pv", {}).code(), StatusCode::kNotFound);
}

TEST_F(FakeClientTest, DeletePreconditions) {
  const Json pod = client_.Add(Pod("web"));
  EXPECT_EQ(client_.Delete(kPod, "default", "web", {.uid = "other"}).code(), StatusCode::kAborted);
  EXPECT_EQ(client_.Delete(kPod, "default", "web", {.resource_version = "999"}).code(),
            StatusCode::kAborted);
  EXPECT_TRUE(Delete(client_, api::Pod(pod)).ok());
  EXPECT_TRUE(Delete(client_, api::Pod(pod)).ok()) << "gone already";
}

TEST_F(FakeClientTest, APodThatRunsIsGivenItsGrace) {
  client_.Add(Pod("web", {{"nodeName", "n"}}));
  ASSERT_TRUE(client_.Delete(kPod, "default", "web", {}).ok());
  const auto pod = client_.Peek<api::Pod>("default", "web");
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(pod->String({"metadata", "deletionTimestamp"}), "2026-01-01T00:00:30Z");
  EXPECT_EQ(pod->Int({"metadata", "deletionGracePeriodSeconds"}), 30);
  ASSERT_TRUE(client_.Delete(kPod, "default", "web", {.grace_period_seconds = 0}).ok());
  EXPECT_FALSE(client_.Peek<api::Pod>("default", "web").has_value());

  client_.Add(Pod("unscheduled"));
  ASSERT_TRUE(client_.Delete(kPod, "default", "unscheduled", {}).ok());
  EXPECT_FALSE(client_.Peek<api::Pod>("default", "unscheduled").has_value());
}

TEST_F(FakeClientTest, BindingPlacesAPodOnce) {
  client_.Add(Pod("web"));
  const Json binding = R"({"target": {"kind": "Node", "name": "n"}})"_json;
  ASSERT_TRUE(client_.CreateSubresource(kPod, "default", "web", "binding", binding).ok());
  EXPECT_EQ(client_.Peek<api::Pod>("default", "web")->node_name(), "n");
  EXPECT_EQ(client_.CreateSubresource(kPod, "default", "web", "binding", binding).status().code(),
            StatusCode::kAborted);
  EXPECT_EQ(client_.CreateSubresource(kPod, "default", "web", "nonsense", binding).status().code(),
            StatusCode::kNotFound);
}

TEST_F(FakeClientTest, ListsSelectAndPage) {
  for (const char* name : {"a", "b", "c"}) {
    client_.Add(Pod(name, {{"nodeName", name == std::string("b") ? "x" : "y"}}));
  }
  EXPECT_EQ(client_.List(kPod, "default", {.field_selector = "spec.nodeName=y"})->items.size(), 2u);
  EXPECT_EQ(client_.List(kPod, "other", {})->items.size(), 0u);
  EXPECT_EQ(client_.List(kPod, "", {.label_selector = "a b"}).status().code(),
            StatusCode::kInvalidArgument);
  auto page = client_.List(kPod, "", {.limit = 2});
  ASSERT_EQ(page->items.size(), 2u);
  page = client_.List(kPod, "", {.limit = 2, .continue_token = page->continue_token});
  ASSERT_EQ(page->items.size(), 1u);
  EXPECT_EQ(page->items[0]["metadata"]["name"], "c");
  EXPECT_EQ(page->continue_token, "");
}

TEST_F(FakeClientTest, FailuresComeInOrderAndOnce) {
  client_.FailNext("patch", "pods/status", base::Error(StatusCode::kUnavailable, "lost"));
  client_.LoseNextAnswer("create", "pods", base::Error(StatusCode::kDeadlineExceeded, "late"));
  EXPECT_EQ(client_.Create(kPod, "default", Pod("web")).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(client_.Peek<api::Pod>("default", "web").has_value()) << "only the answer was lost";
  const Json patch = R"({"status": {"phase": "Running"}})"_json;
  EXPECT_EQ(
      client_.Patch(kPod, "default", "web", PatchType::kMerge, patch, "status").status().code(),
      StatusCode::kUnavailable);
  EXPECT_EQ(client_.Peek<api::Pod>("default", "web")->phase(), "Pending");
  EXPECT_TRUE(client_.Patch(kPod, "default", "web", PatchType::kMerge, patch, "status").ok());
}

TEST_F(FakeClientTest, ActionsAreTheWrites) {
  client_.Add(Pod("seed"));
  (void)client_.Get(kPod, "default", "seed");
  ASSERT_TRUE(
      client_
          .Patch(kPod, "default", "seed", PatchType::kMerge, R"({"b": 1, "a": 2})"_json, "status")
          .ok());
  ASSERT_TRUE(client_.Patch(kPod, "default", "seed", PatchType::kJson, Json::array(), "").ok());
  ASSERT_TRUE(client_.Delete(kPod, "default", "seed", {}).ok());
  EXPECT_THAT(client_.TakeActions(),
              testing::ElementsAre(R"(patch pods/default/seed/status {"a":2,"b":1})",
                                   "patch pods/default/seed json []", "delete pods/default/seed"));
  EXPECT_TRUE(client_.TakeActions().empty());
}

TEST_F(FakeClientTest, AWatchSeesTheChangesOfWhatItSelects) {
  const auto labelled = [&](std::string_view name, std::string_view app) {
    Json pod = Pod(name);
    pod["metadata"]["labels"]["app"] = app;
    return pod;
  };
  client_.Add(labelled("old", "web"));
  const std::string version = client_.List(kPod, "", {})->resource_version;
  client_.Add(labelled("other", "db"));
  client_.Add(labelled("new", "web"));
  client_.Add(labelled("old", "db"));     // leaves
  client_.Add(labelled("other", "web"));  // enters
  client_.Remove(kPod, "default", "new");

  std::vector<std::string> seen;
  EXPECT_TRUE(client_
                  .Watch(kPod, "default",
                         {.label_selector = "app=web", .resource_version = version}, {},
                         [&](const WatchEvent& event) {
                           seen.push_back(fmt::format("{} {}", static_cast<int>(event.type),
                                                      api::Object(event.object).name()));
                           return seen.size() < 4;
                         })
                  .ok());
  EXPECT_THAT(seen, testing::ElementsAre("0 new", "2 old", "0 other", "2 new"));
}

TEST_F(FakeClientTest, AWatchEndsWhenToldAndWhenTooOld) {
  const Json pod = client_.Add(Pod("web"));
  const std::string version = api::Object(pod).resource_version();
  const auto watch = [&](std::stop_token stop) {
    return client_.Watch(kPod, "", {.resource_version = version}, stop,
                         [](const WatchEvent&) { return true; });
  };
  std::stop_source stop;
  auto stopped = std::async(std::launch::async, watch, stop.get_token());
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  stop.request_stop();
  EXPECT_EQ(stopped.get().code(), StatusCode::kCancelled);

  auto ended = std::async(std::launch::async, watch, std::stop_token());
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  client_.EndWatches();
  EXPECT_TRUE(ended.get().ok());

  auto broken = std::async(std::launch::async, watch, std::stop_token());
  ASSERT_TRUE(client_.WaitForWatches(kPod, 1));
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "down"));
  EXPECT_EQ(broken.get().code(), StatusCode::kUnavailable);
  client_.SetOutage(base::OkStatus());

  client_.Compact();
  EXPECT_EQ(watch({}).code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace berth::kube
