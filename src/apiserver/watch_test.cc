// Watches, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

class WatchTest : public ApiTest {};

TEST_F(WatchTest, WatchWithoutRevisionBeginsWithWhatIsThere) {
  CreateMany(2);
  OpenWatch watch(socket(), kConfigMaps, "");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0000");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0001");
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("later")).code, 201);
  EXPECT_EQ(watch.NextBrief(), "ADDED later");
}

TEST_F(WatchTest, SendInitialEventsEndsWithAMarkedBookmark) {
  CreateMany(1);
  OpenWatch watch(
      socket(), kConfigMaps,
      "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0000");
  const Json bookmark = watch.Next();
  EXPECT_EQ(bookmark["type"], "BOOKMARK");
  EXPECT_EQ(bookmark["object"]["kind"], "ConfigMap");
  EXPECT_EQ(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  EXPECT_EQ(bookmark["object"]["metadata"]["resourceVersion"], std::to_string(store_->current()));
}

TEST_F(WatchTest, AnObjectThatCrossesTheSelectorComesAndGoes) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  OpenWatch watch(socket(), kConfigMaps,
                  fmt::format("labelSelector=in&resourceVersion={}", store_->current()));
  const auto label = [&](const Json& value) {
    ASSERT_EQ(Patch(At(kConfigMaps, "a"), {{"metadata", {{"labels", {{"in", value}}}}}}).code, 200);
  };
  label("1");
  label("2");
  label(nullptr);
  EXPECT_EQ(watch.NextBrief(), "ADDED a");
  EXPECT_EQ(watch.NextBrief(), "MODIFIED a");
  const Json left = watch.Next();
  EXPECT_EQ(left["type"], "DELETED");
  EXPECT_EQ(left["object"]["metadata"]["labels"]["in"], "2");
  EXPECT_EQ(left["object"]["metadata"]["resourceVersion"], std::to_string(store_->current()));
}

TEST_F(WatchTest, WatchEndsAtItsTimeout) {
  OpenWatch watch(socket(), kConfigMaps,
                  fmt::format("timeoutSeconds=1&resourceVersion={}", store_->current()));
  EXPECT_EQ(watch.NextBrief(), "end");
  // The watch ends cleanly, so the connection takes the next request.
  watch.connection().Send(RequestText("GET", "/healthz", "", ""));
  EXPECT_EQ(ReadResponse(watch.connection()).body, "ok");
}

TEST_F(WatchTest, AWatcherThatDoesNotReadHoldsUpNobody) {
  const std::string since = fmt::format("resourceVersion={}", store_->current());
  OpenWatch lazy(socket(), kConfigMaps, since);
  OpenWatch keen(socket(), kConfigMaps, since);
  const Json big = ConfigMap("big", {{"k", std::string(500'000, 'x')}});
  ASSERT_EQ(Post(kConfigMaps, big).code, 201);
  EXPECT_EQ(keen.NextBrief(), "ADDED big");
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(
        Patch(At(kConfigMaps, "big"), {{"metadata", {{"labels", {{"n", std::to_string(i)}}}}}})
            .code,
        200);
    EXPECT_EQ(keen.NextBrief(), "MODIFIED big");
  }
  // The lazy watcher gets some of the events, in order, and then the end of the watch. It can go on
  // from the last event that it saw.
  int got = 0;
  while (lazy.NextBrief() != "end") ++got;
  EXPECT_GT(got, 0);
  EXPECT_LT(got, 9);
}

TEST_F(WatchTest, StopEndsWatchesAtOnce) {
  OpenWatch watch(socket(), kConfigMaps, fmt::format("resourceVersion={}", store_->current()));
  const auto start = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(watch.NextBrief(), "end");
}

TEST_F(WatchTest, WatchFromACompactedRevisionIsGone) {
  CreateMany(3);
  const std::string old = Get(kConfigMaps).version();
  ASSERT_EQ(Delete(At(kConfigMaps, "c0001")).code, 200);
  ASSERT_EQ(Delete(At(kConfigMaps, "c0002")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  const auto gone = Get(fmt::format("{}?watch=true&resourceVersion={}", kConfigMaps, old));
  EXPECT_EQ(gone.code, 410) << gone.body;
  EXPECT_EQ(gone.reason(), "Expired");
}

TEST_F(WatchTest, WithoutInitialEventsBeginsNow) {
  CreateMany(1);
  for (const char* revision : {"", "&resourceVersion=0"}) {
    OpenWatch watch(
        socket(), kConfigMaps,
        fmt::format("sendInitialEvents=false&resourceVersionMatch=NotOlderThan{}", revision));
    const std::string name = fmt::format("later{}", std::string_view(revision).size());
    ASSERT_EQ(Post(kConfigMaps, ConfigMap(name)).code, 201);
    EXPECT_EQ(watch.NextBrief(), "ADDED " + name);
  }
}

TEST_F(WatchTest, ALongHistoryReachesAClientThatReadsSlowly) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("first")).code, 201);
  const store::Revision since = store_->current();
  Fill(3000, 2000);  // several times what may wait for a client
  OpenWatch watch(socket(), kConfigMaps, fmt::format("resourceVersion={}", since));
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(watch.NextBrief(), fmt::format("ADDED c{:04}", i));
  ASSERT_EQ(Delete(At(kConfigMaps, "first")).code, 200);
  EXPECT_EQ(watch.NextBrief(), "DELETED first");
}

TEST_F(WatchTest, ALastBookmarkComesBeforeTheEnd) {
  CreateMany(1);
  OpenWatch watch(socket(), kConfigMaps,
                  fmt::format("timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion={}",
                              store_->current()));
  // The client sees nothing of this write but the revision in the bookmark.
  ASSERT_EQ(Post("/api/v1/namespaces/default/secrets", ConfigMap("s")).code, 201);
  const Json bookmark = watch.Next();
  EXPECT_EQ(bookmark["type"], "BOOKMARK");
  EXPECT_EQ(bookmark["object"]["kind"], "ConfigMap");
  EXPECT_EQ(bookmark["object"]["metadata"],
            Json({{"resourceVersion", std::to_string(store_->current())}}));
  EXPECT_EQ(watch.NextBrief(), "end");
}

TEST_F(WatchTest, ARevisionOfTheFutureIsRefused) {
  const auto refused =
      Get(fmt::format("{}?watch=true&resourceVersion={}", kConfigMaps, store_->current() + 1000));
  EXPECT_EQ(refused.code, 504);
  EXPECT_EQ(refused.json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

TEST_F(WatchTest, FieldSelectorsFilterEvents) {
  OpenWatch watch(
      socket(), kConfigMaps,
      fmt::format("fieldSelector=metadata.name%3Dc0001&resourceVersion={}", store_->current()));
  CreateMany(3);
  ASSERT_EQ(Delete(At(kConfigMaps, "c0000")).code, 200);
  ASSERT_EQ(Delete(At(kConfigMaps, "c0001")).code, 200);
  EXPECT_EQ(watch.NextBrief(), "ADDED c0001");
  EXPECT_EQ(watch.NextBrief(), "DELETED c0001");
}

TEST_F(WatchTest, IsNeverIndentedNorCompressed) {
  CreateMany(2);
  OpenWatch watch(socket(), kConfigMaps, "pretty=true", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(watch.head(), testing::Not(HasSubstr("Content-Encoding")));
  EXPECT_EQ(watch.NextBrief(), "ADDED c0000");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0001");
}

}  // namespace
}  // namespace berth::apiserver
