#include "kube/discovery.h"

#include <gtest/gtest.h>

#include "kube/fake_client.h"

namespace berth::kube {
namespace {

const api::KindInfo kWidget{.group = "example.com",
                            .version = "v1",
                            .kind = "Widget",
                            .plural = "widgets",
                            .singular = "widget",
                            .namespaced = true};

const ServedKind* FindServed(const ServedKinds& kinds, std::string_view group,
                             std::string_view plural) {
  for (const auto& kind : kinds) {
    if (kind->info().group == group && kind->info().plural == plural) return kind.get();
  }
  return nullptr;
}

TEST(DiscoveryTest, TellsKnownKindsAndCustomOnes) {
  FakeClient client;
  client.Serve(kWidget);
  const auto kinds = DiscoverKinds(client);
  ASSERT_TRUE(kinds.ok()) << base::ToString(kinds.status());
  const ServedKind* pods = FindServed(*kinds, "", "pods");
  ASSERT_NE(pods, nullptr);
  EXPECT_EQ(&pods->info(), &api::kinds::kPod);
  EXPECT_TRUE(pods->HasVerb("deletecollection"));
  const ServedKind* widgets = FindServed(*kinds, "example.com", "widgets");
  ASSERT_NE(widgets, nullptr);
  EXPECT_EQ(widgets->info().kind, "Widget");
  EXPECT_TRUE(widgets->info().namespaced);
  EXPECT_EQ(widgets->info().url("a"), "/apis/example.com/v1/namespaces/a/widgets");
  const ServedKind* services = FindServed(*kinds, "apiregistration.k8s.io", "apiservices");
  ASSERT_NE(services, nullptr);
  EXPECT_FALSE(services->HasVerb("delete"));
}

TEST(DiscoveryTest, AResourceOfSeveralVersionsIsServedInThePreferredOne) {
  FakeClient client;
  const auto version = [](const char* name) {
    return Json{{"version", name},
                {"resources",
                 {{{"resource", "widgets"},
                   {"responseKind", {{"kind", "Widget"}}},
                   {"scope", "Cluster"},
                   {"verbs", {"list"}}}}}};
  };
  client.SetStream("/apis", base::json::Dump({{"kind", "APIGroupDiscoveryList"},
                                              {"items",
                                               {{{"metadata", {{"name", "example.com"}}},
                                                 {"versions", {version("v2"), version("v1")}}}}}}));
  const auto kinds = DiscoverKinds(client);
  ASSERT_TRUE(kinds.ok());
  const ServedKind* widgets = FindServed(*kinds, "example.com", "widgets");
  ASSERT_NE(widgets, nullptr);
  EXPECT_EQ(widgets->info().version, "v2");
  EXPECT_FALSE(widgets->info().namespaced);
}

TEST(DiscoveryTest, AnOlderDocumentIsRefused) {
  FakeClient client;
  client.SetStream("/api", R"({"kind":"APIVersions","versions":["v1"]})");
  EXPECT_EQ(DiscoverKinds(client).status().code(), base::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace berth::kube
