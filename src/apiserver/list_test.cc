// Lists: pages, snapshots, revisions and selectors, over HTTP.

#include "apiserver/api_fixture.h"
#include "http/gzip.h"

namespace berth::apiserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kMostListBytes = size_t{16} << 20;  // of a decompressed answer

class ListTest : public ApiTest {
 protected:
  TestResponse List(std::string_view query) {
    return Get(fmt::format("{}?{}", kConfigMaps, query));
  }
  static std::string Token(const TestResponse& list) {
    return base::json::String(list.json, {"metadata", "continue"});
  }
};

TEST_F(ListTest, PagesShowOneSnapshot) {
  CreateMany(5);
  const auto first = Get(std::string(kConfigMaps) + "?limit=2");
  EXPECT_THAT(Names(first.json), ElementsAre("c0000", "c0001"));
  const std::string token = first.json["metadata"]["continue"];
  ASSERT_EQ(Delete(At(kConfigMaps, "c0002")).code, 200);
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("c0003a")).code, 201);
  const auto rest = Get(fmt::format("{}?limit=9&continue={}", kConfigMaps, token));
  EXPECT_THAT(Names(rest.json), ElementsAre("c0002", "c0003", "c0004"));
  EXPECT_EQ(rest.version(), first.version());
  EXPECT_FALSE(rest.json["metadata"].contains("continue"));
}

TEST_F(ListTest, AnExpiredTokenGives410WithAFreshOne) {
  CreateMany(4);
  const auto first = Get(std::string(kConfigMaps) + "?limit=2");
  CreateMany(0);
  ASSERT_EQ(Delete(At(kConfigMaps, "c0003")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  const auto expired = Get(fmt::format("{}?continue={}", kConfigMaps,
                                       first.json["metadata"]["continue"].get<std::string>()));
  EXPECT_EQ(expired.code, 410) << expired.body;
  EXPECT_EQ(expired.reason(), "Expired");
  const auto rest = Get(fmt::format("{}?continue={}", kConfigMaps,
                                    expired.json["metadata"]["continue"].get<std::string>()));
  EXPECT_THAT(Names(rest.json), ElementsAre("c0002"));
}

TEST_F(ListTest, AListLongerThanAPageIsWhole) {
  Fill(1200, 2000);
  const auto list = Get(kConfigMaps);
  EXPECT_THAT(list.head, HasSubstr("chunked"));
  ASSERT_EQ(list.json["items"].size(), 1200u);
  EXPECT_EQ(list.json["items"][1199]["metadata"]["name"], "c1199");
  EXPECT_EQ(Json(list.version()), list.json["items"][1199]["metadata"]["resourceVersion"]);

  OpenWatch watch(socket(), kConfigMaps, "resourceVersion=0");
  for (int i = 0; i < 1200; ++i) {
    ASSERT_EQ(watch.NextBrief(), fmt::format("ADDED c{:04}", i));
  }
  ASSERT_EQ(Delete(At(kConfigMaps, "c0000")).code, 200);
  EXPECT_EQ(watch.NextBrief(), "DELETED c0000");
}

TEST_F(ListTest, SelectorsFilterLists) {
  for (const char* name : {"a", "b", "c"}) {
    Json pod = PodNamed(name);
    pod["metadata"]["labels"] = {{"app", name}};
    if (name == std::string("b")) pod["spec"]["nodeName"] = "n1";
    ASSERT_EQ(Post(kPods, pod).code, 201);
  }
  const std::string pods(kPods);
  EXPECT_THAT(Names(Get(pods + "?labelSelector=app+in+(a,c)").json), ElementsAre("a", "c"));
  EXPECT_THAT(Names(Get(pods + "?labelSelector=app!=a").json), ElementsAre("b", "c"));
  EXPECT_THAT(Names(Get(pods + "?fieldSelector=spec.nodeName%3Dn1").json), ElementsAre("b"));
  EXPECT_THAT(Names(Get(pods + "?fieldSelector=metadata.name%3Dc").json), ElementsAre("c"));
  EXPECT_THAT(Names(Get(pods + "?fieldSelector=metadata.name%3Dnope").json), ElementsAre());
  EXPECT_THAT(Names(Get("/api/v1/pods?fieldSelector=metadata.name%3Dc").json), ElementsAre("c"));
  EXPECT_THAT(Names(Get(pods + "?limit=1&labelSelector=app%3Dc").json), ElementsAre("c"));
}

struct BadQuery {
  std::string_view query;
  int code;
  std::string_view text;
};

TEST_F(ListTest, RefusesBadQueries) {
  const BadQuery cases[] = {
      {"labelSelector=a%20b%20c", 400, ""},
      {"labelSelector=a+in+(b", 400, ""},
      {"fieldSelector=spec.nope%3D1", 400, "field label not supported: spec.nope"},
      {"limit=many", 400, "limit"},
      {"resourceVersion=x", 422, "resourceVersion"},
      {"continue=nonsense", 400, "continue key is not valid"},
      {"resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"},
      {"resourceVersion=0&resourceVersionMatch=Exact", 422, "forbidden for resourceVersion \"0\""},
      {"resourceVersion=1&resourceVersionMatch=Some", 422, "Unsupported value"},
      {"sendInitialEvents=true", 422, "forbidden for list"},
      {"watch=true&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"},
      {"watch=true&resourceVersionMatch=NotOlderThan", 422, "forbidden for watch"},
      {"resourceVersion=99999999", 504, "Too large resource version"},
      {"watch=true&resourceVersion=99999999", 504, "Too large resource version"},
      {"a=%zz", 400, "percent escape"},
  };
  for (const BadQuery& bad : cases) {
    const auto refused = Get(fmt::format("{}?{}", kConfigMaps, bad.query));
    EXPECT_EQ(refused.code, bad.code) << bad.query << refused.body;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text)) << bad.query;
  }
}

TEST_F(ListTest, TellsHowManyFollow) {
  CreateMany(5);
  const auto first = List("limit=2");
  EXPECT_EQ(first.json["metadata"]["remainingItemCount"], 3);
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("c0003a")).code, 201);  // not in the list's moment
  const auto second = List("limit=2&continue=" + Token(first));
  EXPECT_EQ(second.json["metadata"]["remainingItemCount"], 1);
  const auto last = List("limit=2&continue=" + Token(second));
  EXPECT_THAT(Names(last.json), ElementsAre("c0004"));
  EXPECT_FALSE(last.json["metadata"].contains("remainingItemCount"));
  // A list with a selector has no remainingItemCount.
  EXPECT_FALSE(List("limit=2&labelSelector=!x").json["metadata"].contains("remainingItemCount"));
}

TEST_F(ListTest, ARevisionIsOfTheLeastOrOfExactlyThat) {
  CreateMany(2);
  const std::string then = std::to_string(store_->current());
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("c0002")).code, 201);
  const auto size = [&](std::string_view query) { return List(query).json["items"].size(); };
  EXPECT_EQ(size("resourceVersion=" + then), 3u);
  EXPECT_EQ(size("resourceVersion=0"), 3u);
  EXPECT_EQ(size("resourceVersionMatch=NotOlderThan&resourceVersion=" + then), 3u);
  EXPECT_EQ(size("resourceVersionMatch=NotOlderThan&limit=10&resourceVersion=" + then), 3u);
  EXPECT_EQ(size("resourceVersionMatch=NotOlderThan&resourceVersion=0"), 3u);
  EXPECT_EQ(size("resourceVersionMatch=Exact&resourceVersion=" + then), 2u);
  EXPECT_EQ(List("resourceVersionMatch=Exact&resourceVersion=" + then).version(), then);
  // Pages of a revision have always been of just that one.
  EXPECT_EQ(size("limit=10&resourceVersion=" + then), 2u);

  ASSERT_EQ(Delete(At(kConfigMaps, "c0000")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  const auto gone = List("resourceVersionMatch=Exact&resourceVersion=" + then);
  EXPECT_EQ(gone.code, 410);
  EXPECT_EQ(gone.reason(), "Expired");
}

TEST_F(ListTest, ARevisionOfTheFutureIsATimeout) {
  const store::Revision future = store_->current() + 1000;
  for (const char* match : {"", "&resourceVersionMatch=Exact", "&limit=3"}) {
    const auto late = List(fmt::format("resourceVersion={}{}", future, match));
    EXPECT_EQ(late.code, 504) << match;
    EXPECT_EQ(late.reason(), "Timeout");
    EXPECT_EQ(late.message(), fmt::format("Timeout: Too large resource version: {}, current: {}",
                                          future, store_->current()));
    EXPECT_EQ(late.json["details"]["retryAfterSeconds"], 1);
    EXPECT_EQ(late.json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
  }
  CreateMany(1);
  EXPECT_EQ(Get(At(kConfigMaps, "c0000") + "?resourceVersion=0").code, 200);
  EXPECT_EQ(Get(fmt::format("{}?resourceVersion={}", At(kConfigMaps, "c0000"), future)).code, 504);
}

TEST_F(ListTest, EveryForbiddenCombinationIsNamed) {
  const auto refused = List("resourceVersionMatch=Some&continue=x&sendInitialEvents=true");
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(), StartsWith("ListOptions.meta.k8s.io \"\" is invalid: ["));
  EXPECT_EQ(refused.json["details"]["causes"].size(), 4u);
  EXPECT_EQ(refused.json["details"]["causes"][0]["field"], "resourceVersionMatch");
}

TEST_F(ListTest, AFreshTokenStartsAMomentOfItsOwn) {
  CreateMany(6);
  const auto first = List("limit=2");
  ASSERT_EQ(Delete(At(kConfigMaps, "c0005")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  const auto expired = List("limit=2&continue=" + Token(first));
  ASSERT_EQ(expired.code, 410) << expired.body;
  const auto second = List("limit=1&continue=" + Token(expired));
  EXPECT_THAT(Names(second.json), ElementsAre("c0002"));
  EXPECT_EQ(second.version(), std::to_string(store_->current()));
  EXPECT_EQ(second.json["metadata"]["remainingItemCount"], 2);
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("c0009")).code, 201);
  const auto third = List("limit=9&continue=" + Token(second));
  EXPECT_EQ(third.version(), second.version());
  EXPECT_THAT(Names(third.json), ElementsAre("c0003", "c0004"));
}

TEST_F(ListTest, ALongListIsCompressedForWhoTakesIt) {
  Fill(1000, 1000);
  const auto plain = Get(kConfigMaps);
  const auto packed = Call("GET", kConfigMaps, "", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(packed.head, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_LT(packed.body.size(), plain.body.size() / 5);
  EXPECT_EQ(http::Gunzip(packed.body, kMostListBytes), plain.body);
  // One that fits into a single answer as well.
  const auto middle =
      Call("GET", std::string(kConfigMaps) + "?limit=150", "", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(middle.head, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_EQ(http::Gunzip(middle.body, kMostListBytes),
            Get(std::string(kConfigMaps) + "?limit=150").body);
  EXPECT_THAT(
      Call("GET", std::string(kConfigMaps) + "?limit=9", "", "Accept-Encoding: gzip\r\n").head,
      testing::Not(HasSubstr("Content-Encoding")));
}

TEST_F(ListTest, ALongListIsIndentedForPeople) {
  Fill(1000, 1000);
  const auto pretty = List("pretty=true");
  EXPECT_EQ(pretty.json["items"].size(), 1000u);
  EXPECT_THAT(pretty.body, StartsWith("{\n  \"kind\": \"ConfigMapList\",\n"));
}

TEST_F(ListTest, LargeObjectsAreReadAFewAtATime) {
  Fill(24, 1'000'000);
  OpenWatch watch(socket(), kConfigMaps, "");
  EXPECT_EQ(Get(kConfigMaps).json["items"].size(), 24u);
  EXPECT_EQ(List("limit=5").json["items"].size(), 5u);
  EXPECT_EQ(List("limit=5").json["metadata"]["remainingItemCount"], 19);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(watch.NextBrief(), fmt::format("ADDED c{:04}", i));
}

TEST_F(ListTest, ASelectorThatFindsLittleInALotFindsIt) {
  Fill(5000, 10);
  ASSERT_EQ(Patch(At(kConfigMaps, "c4999"), {{"metadata", {{"labels", {{"in", "1"}}}}}}).code, 200);
  EXPECT_THAT(Names(List("labelSelector=in").json), ElementsAre("c4999"));
  EXPECT_THAT(Names(List("labelSelector=in&limit=1").json), ElementsAre("c4999"));
  EXPECT_THAT(Names(List("labelSelector=none").json), ElementsAre());
}

TEST_F(ListTest, AListThatCannotGoOnDoesNotPassForWhole) {
  Fill(8000, 2000);  // more than a socket buffers
  TestConnection connection(socket());
  connection.Send(RequestText("GET", kConfigMaps, "", ""));
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), HasSubstr("chunked"));
  // The client dawdles; meanwhile the moment that the list shows is compacted away.
  ASSERT_EQ(Delete(At(kConfigMaps, "c7999")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  EXPECT_THAT(connection.ReadToEnd(), testing::Not(testing::EndsWith("0\r\n\r\n")));
}

TEST_F(ListTest, HeadOfALongListHasNoBody) {
  Fill(1000, 1000);
  TestConnection connection(socket());
  connection.Send(RequestText("HEAD", kConfigMaps, "", ""));
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  connection.Send(RequestText("GET", "/healthz", "", ""));
  EXPECT_EQ(ReadResponse(connection).body, "ok");
}

}  // namespace
}  // namespace berth::apiserver
