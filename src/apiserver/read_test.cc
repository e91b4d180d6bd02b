// Lists, watches and the forms in which objects are shown, over HTTP.

#include "apiserver/test_client.h"

namespace berth::apiserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kTable =
    "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n";

std::vector<std::string> Names(const Json& list) {
  std::vector<std::string> names;
  for (const Json& item : list["items"]) names.push_back(item["metadata"]["name"]);
  return names;
}

// An open watch and its events.
class OpenWatch {
 public:
  OpenWatch(const std::string& socket, std::string_view collection, std::string_view query,
            std::string_view headers = "")
      : connection_(socket) {
    connection_.Send(
        RequestText("GET", fmt::format("{}?watch=true&{}", collection, query), "", headers));
    head_ = connection_.ReadUntil("\r\n\r\n");
  }

  const std::string& head() const { return head_; }
  TestConnection& connection() { return connection_; }

  // The next event; null at the stream's end. A chunk may carry several lines.
  Json Next() {
    while (lines_.empty()) {
      const std::string chunk = connection_.ReadChunk();
      if (chunk.empty()) return nullptr;
      std::istringstream text(chunk);
      for (std::string line; std::getline(text, line);) {
        lines_.push_back(base::json::Parse(line).value_or(Json()));
      }
    }
    Json event = std::move(lines_.front());
    lines_.pop_front();
    return event;
  }
  // "ADDED a"
  std::string NextBrief() {
    const Json event = Next();
    return event.is_null() ? "end"
                           : fmt::format("{} {}", base::json::String(event, {"type"}),
                                         base::json::String(event, {"object", "metadata", "name"}));
  }

 private:
  TestConnection connection_;
  std::string head_;
  std::deque<Json> lines_;
};

class ReadTest : public ApiTest {
 protected:
  void CreateMany(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(Post(kConfigMaps, ConfigMap(fmt::format("c{:04}", i))).code, 201);
    }
  }
};

TEST_F(ReadTest, PagesShowOneSnapshot) {
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

TEST_F(ReadTest, AnExpiredTokenGives410WithAFreshOne) {
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

TEST_F(ReadTest, AListLongerThanAPageIsWhole) {
  // Written straight into the store: a thousand HTTP requests prove nothing more.
  const std::string text(2000, 'x');
  for (int i = 0; i < 1200; ++i) {
    const std::string name = fmt::format("c{:04}", i);
    ASSERT_TRUE(
        store_
            ->Apply({.key = "/configmaps/default/" + name,
                     .value = fmt::format(R"({{"apiVersion":"v1","kind":"ConfigMap","metadata":)"
                                          R"({{"name":"{}"}},"data":{{"k":"{}"}}}})",
                                          name, text)})
            .ok());
  }
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

TEST_F(ReadTest, SelectorsFilterLists) {
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

TEST_F(ReadTest, RefusesBadQueries) {
  const BadQuery cases[] = {
      {"labelSelector=a%20b%20c", 400, ""},
      {"labelSelector=a+in+(b", 400, ""},
      {"fieldSelector=spec.nope%3D1", 400, "field label not supported: spec.nope"},
      {"limit=many", 400, "limit"},
      {"limit=-1", 400, "limit"},
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

TEST_F(ReadTest, WatchWithoutRevisionBeginsWithWhatIsThere) {
  CreateMany(2);
  OpenWatch watch(socket(), kConfigMaps, "");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0000");
  EXPECT_EQ(watch.NextBrief(), "ADDED c0001");
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("later")).code, 201);
  EXPECT_EQ(watch.NextBrief(), "ADDED later");
}

TEST_F(ReadTest, SendInitialEventsEndsWithAMarkedBookmark) {
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

TEST_F(ReadTest, WatchFromACompactedRevisionIsGone) {
  CreateMany(3);
  const std::string old = Get(kConfigMaps).version();
  ASSERT_EQ(Delete(At(kConfigMaps, "c0001")).code, 200);
  ASSERT_EQ(Delete(At(kConfigMaps, "c0002")).code, 200);
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  const auto gone = Get(fmt::format("{}?watch=true&resourceVersion={}", kConfigMaps, old));
  EXPECT_EQ(gone.code, 410) << gone.body;
  EXPECT_EQ(gone.reason(), "Expired");
}

TEST_F(ReadTest, AnObjectThatCrossesTheSelectorComesAndGoes) {
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

TEST_F(ReadTest, WatchEndsAtItsTimeout) {
  OpenWatch watch(socket(), kConfigMaps,
                  fmt::format("timeoutSeconds=1&resourceVersion={}", store_->current()));
  EXPECT_EQ(watch.NextBrief(), "end");
  // Cleanly: the connection goes on.
  watch.connection().Send(RequestText("GET", "/healthz", "", ""));
  EXPECT_EQ(ReadResponse(watch.connection()).body, "ok");
}

TEST_F(ReadTest, AWatcherThatDoesNotReadHoldsUpNobody) {
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
  // The lazy one gets some of them, in order, and then the end: it goes on from the last that it
  // saw.
  int got = 0;
  while (lazy.NextBrief() != "end") ++got;
  EXPECT_GT(got, 0);
  EXPECT_LT(got, 9);
}

TEST_F(ReadTest, StopEndsWatchesAtOnce) {
  OpenWatch watch(socket(), kConfigMaps, fmt::format("resourceVersion={}", store_->current()));
  const auto start = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(watch.NextBrief(), "end");
}

TEST_F(ReadTest, TablesShowTheColumnsOfTheKind) {
  ASSERT_EQ(Post(kPods, PodNamed("a")).code, 201);
  clock_.Advance(std::chrono::seconds(90));
  const auto table = Call("GET", kPods, "", kTable);
  ASSERT_EQ(table.code, 200) << table.body;
  EXPECT_EQ(table.json["kind"], "Table");
  EXPECT_EQ(table.json["apiVersion"], "meta.k8s.io/v1");
  EXPECT_EQ(table.json["columnDefinitions"][0]["name"], "Name");
  EXPECT_EQ(table.json["columnDefinitions"][0]["format"], "name");
  EXPECT_EQ(table.json["columnDefinitions"][5]["priority"], 1);
  ASSERT_EQ(table.json["rows"].size(), 1u);
  EXPECT_EQ(table.json["rows"][0]["cells"], Json::array({"a", "0/1", "Pending", "0", "90s",
                                                         "<none>", "<none>", "<none>", "<none>"}));
  EXPECT_EQ(table.json["rows"][0]["object"]["kind"], "PartialObjectMetadata");
  EXPECT_EQ(table.json["rows"][0]["object"]["metadata"]["name"], "a");

  const auto one = Call("GET", At(kPods, "a") + "?includeObject=Object", "", kTable);
  EXPECT_EQ(one.json["rows"][0]["object"]["spec"]["restartPolicy"], "Always");
}

TEST_F(ReadTest, EveryKindHasATableWithOneCellPerColumn) {
  for (const api::KindInfo* info : api::AllKinds()) {
    const auto table = Call("GET", info->url(""), "", kTable);
    ASSERT_EQ(table.code, 200) << info->plural << table.body;
    const size_t columns = table.json["columnDefinitions"].size();
    EXPECT_GE(columns, 2u) << info->plural;
    for (const Json& row : table.json["rows"])
      EXPECT_EQ(row["cells"].size(), columns) << info->plural;
  }
}

TEST_F(ReadTest, PodStatusColumnTellsWhatHinders) {
  struct Case {
    std::string_view status;
    std::string_view shown;
    std::string_view ready = "0/1";
  };
  const Case cases[] = {
      {R"({"phase":"Running","containerStatuses":[{"ready":true,"state":{"running":{}}}]})",
       "Running", "1/1"},
      {R"({"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ErrImagePull"}}}]})",
       "ErrImagePull"},
      {R"({"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":3,"reason":"Error"}}}]})",
       "Error"},
      {R"({"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":3}}}]})",
       "ExitCode:3"},
      {R"({"phase":"Pending","initContainerStatuses":[{"state":{"running":{}}}]})", "Init:0/0"},
      {R"({"phase":"Failed","reason":"Evicted"})", "Evicted"},
  };
  ASSERT_EQ(Post(kPods, PodNamed("a")).code, 201);
  for (const Case& one : cases) {
    const Json patch = Json::array({{{"op", "replace"},
                                     {"path", "/status"},
                                     {"value", base::json::Parse(one.status).value()}}});
    ASSERT_EQ(Patch(At(kPods, "a") + "/status", patch, "json-patch+json").code, 200) << one.status;
    const auto table = Call("GET", At(kPods, "a"), "", kTable);
    EXPECT_EQ(table.json["rows"][0]["cells"][2], Json(std::string(one.shown))) << one.status;
    EXPECT_EQ(table.json["rows"][0]["cells"][1], Json(std::string(one.ready))) << one.status;
  }
}

TEST_F(ReadTest, WatchTableHasColumnsInItsFirstEventOnly) {
  OpenWatch watch(socket(), kConfigMaps, fmt::format("resourceVersion={}", store_->current()),
                  kTable);
  CreateMany(2);
  const Json first = watch.Next();
  EXPECT_EQ(first["object"]["kind"], "Table");
  EXPECT_TRUE(first["object"]["columnDefinitions"].is_array());
  const Json second = watch.Next();
  EXPECT_TRUE(second["object"]["columnDefinitions"].is_null());
  EXPECT_EQ(second["object"]["rows"][0]["cells"][0], "c0001");
}

TEST_F(ReadTest, MetadataAloneIsServed) {
  CreateMany(1);
  const auto list =
      Call("GET", kConfigMaps, "",
           "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n");
  EXPECT_EQ(list.json["kind"], "PartialObjectMetadataList");
  EXPECT_EQ(list.json["items"][0]["kind"], "PartialObjectMetadata");
  EXPECT_FALSE(list.json["items"][0].contains("data"));
  EXPECT_EQ(Call("GET", kConfigMaps, "", "Accept: application/vnd.kubernetes.protobuf\r\n").code,
            406);
  EXPECT_EQ(Call("GET", kConfigMaps, "",
                 "Accept: application/vnd.kubernetes.protobuf,application/json\r\n")
                .code,
            200);
}

}  // namespace
}  // namespace berth::apiserver
