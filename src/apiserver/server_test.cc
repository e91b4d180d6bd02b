// The main path over HTTP: create, get, list, watch, update, patch, delete.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(ApiTest, CreatesAndReadsAnObject) {
  const auto created = Post(kConfigMaps, ConfigMap("a", {{"k", "v"}}));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["kind"], "ConfigMap");
  EXPECT_EQ(created.json["metadata"]["namespace"], "default");
  EXPECT_EQ(created.json["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(created.json["metadata"]["uid"].get<std::string>().size(), 36u);
  EXPECT_FALSE(created.version().empty());

  const auto read = Get(At(kConfigMaps, "a"));
  EXPECT_EQ(read.code, 200);
  EXPECT_EQ(read.json, created.json);
  EXPECT_EQ(read.json["data"]["k"], "v");
}

TEST_F(ApiTest, ListsInOrderWithTheRevisionOfTheSnapshot) {
  for (const char* name : {"b", "a", "c"}) ASSERT_EQ(Post(kConfigMaps, ConfigMap(name)).code, 201);
  const auto list = Get(kConfigMaps);
  ASSERT_EQ(list.code, 200) << list.body;
  EXPECT_EQ(list.json["kind"], "ConfigMapList");
  ASSERT_EQ(list.json["items"].size(), 3u);
  EXPECT_EQ(list.json["items"][0]["metadata"]["name"], "a");
  EXPECT_EQ(list.json["items"][2]["metadata"]["name"], "c");
  EXPECT_EQ(Json(list.version()), list.json["items"][2]["metadata"]["resourceVersion"]);
}

TEST_F(ApiTest, WatchTellsOfChangesAfterTheRevision) {
  const auto list = Get(kConfigMaps);
  TestConnection watch(socket());
  watch.Send(RequestText(
      "GET", fmt::format("{}?watch=true&resourceVersion={}", kConfigMaps, list.version()), "", ""));
  EXPECT_THAT(watch.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  Post(kConfigMaps, ConfigMap("a"));
  Patch(At(kConfigMaps, "a"), {{"data", {{"k", "v"}}}});
  const auto deleted = Delete(At(kConfigMaps, "a"));
  EXPECT_EQ(deleted.json["status"], "Success");
  for (const char* type : {"ADDED", "MODIFIED", "DELETED"}) {
    const Json event = base::json::Parse(watch.ReadChunk()).value_or(Json());
    EXPECT_EQ(event["type"], type);
    EXPECT_EQ(event["object"]["metadata"]["name"], "a");
  }
}

TEST_F(ApiTest, UpdatesWithTheRevisionReadAndRefusesAStaleOne) {
  const auto created = Post(kConfigMaps, ConfigMap("a"));
  Json object = created.json;
  object["data"]["k"] = "1";
  const auto updated = Put(At(kConfigMaps, "a"), object);
  ASSERT_EQ(updated.code, 200) << updated.body;
  EXPECT_NE(updated.version(), created.version());

  const auto stale = Put(At(kConfigMaps, "a"), object);
  EXPECT_EQ(stale.code, 409);
  EXPECT_EQ(stale.reason(), "Conflict");
  EXPECT_EQ(
      stale.message(),
      "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please "
      "apply your changes to the latest version and try again");
}

TEST_F(ApiTest, DeletesOnce) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  EXPECT_EQ(Delete(At(kConfigMaps, "a")).code, 200);
  const auto again = Delete(At(kConfigMaps, "a"));
  EXPECT_EQ(again.code, 404);
  EXPECT_EQ(again.message(), "configmaps \"a\" not found");
  EXPECT_EQ(again.json["details"]["kind"], "configmaps");
}

TEST_F(ApiTest, KeepsObjectsOverARestart) {
  const auto created = Post(kConfigMaps, ConfigMap("a", {{"k", "v"}}));
  server_.reset();
  store_.reset();
  StartServer();
  EXPECT_EQ(Get(At(kConfigMaps, "a")).json, created.json);
}

}  // namespace
}  // namespace berth::apiserver
