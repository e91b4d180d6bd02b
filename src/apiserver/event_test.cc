// One event, two forms: core and events.k8s.io.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

constexpr std::string_view kCore = "/api/v1/namespaces/default/events";
constexpr std::string_view kNew = "/apis/events.k8s.io/v1/namespaces/default/events";

Json NewEvent(std::string_view name) {
  return {{"metadata", {{"name", std::string(name)}}},
          {"eventTime", "2026-01-01T00:00:00.000000Z"},
          {"reportingController", "example.com/c"},
          {"reportingInstance", "c-0"},
          {"action", "Doing"},
          {"reason", "Done"},
          {"type", "Normal"},
          {"note", "it is done"},
          {"regarding", {{"kind", "Pod"}, {"name", "p"}, {"namespace", "default"}}}};
}

TEST_F(ApiTest, AnEventIsReadInBothForms) {
  const auto created = Post(kNew, NewEvent("e"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(created.json["note"], "it is done");

  const auto core = Get(At(kCore, "e"));
  EXPECT_EQ(core.json["apiVersion"], "v1");
  EXPECT_EQ(core.json["message"], "it is done");
  EXPECT_EQ(core.json["involvedObject"]["name"], "p");
  EXPECT_EQ(core.json["reportingComponent"], "example.com/c");
  EXPECT_FALSE(core.json.contains("note"));
  EXPECT_EQ(core.json["metadata"]["resourceVersion"], created.json["metadata"]["resourceVersion"]);

  const auto list = Get(kNew);
  EXPECT_EQ(list.json["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(list.json["items"][0]["regarding"]["kind"], "Pod");
  EXPECT_EQ(Delete(At(kNew, "e")).code, 200);
  EXPECT_EQ(Get(At(kCore, "e")).code, 404);
}

TEST_F(ApiTest, AnEventIsChangedInTheFormOfTheRequest) {
  ASSERT_EQ(Post(kCore, {{"metadata", {{"name", "e"}}},
                         {"message", "m"},
                         {"reason", "r"},
                         {"involvedObject", {{"namespace", "default"}}}})
                .code,
            201);
  const auto counted =
      Patch(At(kNew, "e"),
            {{"series", {{"count", 2}, {"lastObservedTime", "2026-01-01T00:00:00.000000Z"}}}});
  EXPECT_EQ(counted.code, 200) << counted.body;
  EXPECT_EQ(counted.json["note"], "m");
  EXPECT_EQ(Get(At(kCore, "e")).json["series"]["count"], 2);
  const auto refused = Patch(At(kNew, "e"), {{"note", "another"}});
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(), HasSubstr("message: Invalid value: \"another\": field is "
                                           "immutable"));
  EXPECT_EQ(Patch(At(kCore, "e"), {{"message", "another"}}).code, 200);
}

TEST_F(ApiTest, EventsAreWatchedAndSelectedInTheFormOfTheRequest) {
  TestConnection core(socket());
  TestConnection newer(socket());
  for (auto& [watch, at] :
       {std::pair<TestConnection&, std::string_view>(core, kCore), {newer, kNew}}) {
    watch.Send(RequestText(
        "GET", fmt::format("{}?watch=true&resourceVersion={}", at, store_->current()), "", ""));
    watch.ReadUntil("\r\n\r\n");
  }
  ASSERT_EQ(Post(kNew, NewEvent("e")).code, 201);
  EXPECT_THAT(core.ReadChunk(), HasSubstr(R"("message":"it is done")"));
  EXPECT_THAT(newer.ReadChunk(), HasSubstr(R"("note":"it is done")"));
  const auto count = [&](std::string_view at, std::string_view selector) {
    const auto list = Get(fmt::format("{}?fieldSelector={}", at, selector));
    EXPECT_EQ(list.code, 200) << list.body;
    return list.json["items"].size();
  };
  EXPECT_EQ(count(kNew, "regarding.name=p"), 1u);
  EXPECT_EQ(count(kNew, "regarding.name=q"), 0u);
  EXPECT_EQ(count(kNew, "reportingController=example.com/c"), 1u);
  EXPECT_EQ(count(kCore, "involvedObject.name=p,reportingComponent=example.com/c"), 1u);
  EXPECT_EQ(Get(fmt::format("{}?fieldSelector=involvedObject.name=p", kNew)).code, 400);
}

TEST_F(ApiTest, TheNewerFormAsksForMore) {
  struct Case {
    std::string_view change;  // a merge patch of NewEvent
    std::string_view text;
  };
  const Case cases[] = {
      {R"({"eventTime":null})", "eventTime: Required value"},
      {R"({"type":"Odd"})", "type: Invalid value: \"\": has invalid value: Odd"},
      {R"({"action":null})", "action: Required value"},
      {R"({"reportingController":null})", "reportingController: Required value"},
      {R"({"deprecatedCount":3})", "count: Invalid value: \"\": needs to be unset"},
      {R"({"deprecatedSource":{"component":"x"}})",
       "source: Invalid value: \"\": needs to be unset"},
      {R"({"series":{"count":1,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}})",
       "series.count: Invalid value: \"\": should be at least 2"},
      {R"({"regarding":{"namespace":null},"metadata":{"namespace":"default"}})", ""},
  };
  for (const Case& one : cases) {
    Json event = NewEvent("e");
    event.merge_patch(base::json::Parse(one.change).value());
    const auto reply = Post(kNew, event);
    EXPECT_EQ(reply.code, one.text.empty() ? 201 : 422) << one.change << reply.body;
    if (!one.text.empty()) EXPECT_THAT(reply.message(), HasSubstr(one.text)) << one.change;
  }
}

TEST_F(ApiTest, ATableOfEventsIsTheSameInBothForms) {
  ASSERT_EQ(Post(kNew, NewEvent("e")).code, 201);
  constexpr std::string_view kTable = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n";
  const auto core = Call("GET", kCore, "", kTable);
  const auto other = Call("GET", kNew, "", kTable);
  ASSERT_EQ(core.json["rows"].size(), 1u);
  EXPECT_EQ(core.json["rows"][0]["cells"][3], "pod/p");
  EXPECT_EQ(core.json["rows"][0]["cells"], other.json["rows"][0]["cells"]);
  EXPECT_EQ(core.json["columnDefinitions"], other.json["columnDefinitions"]);
}

}  // namespace
}  // namespace berth::apiserver
