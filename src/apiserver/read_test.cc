// The forms in which objects are shown, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

class ReadTest : public ApiTest {};

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
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    if (info->review) continue;  // is not read
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

TEST_F(ReadTest, MetadataAloneIsServed) {
  CreateMany(1);
  const auto list =
      Call("GET", kConfigMaps, "",
           "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n");
  EXPECT_EQ(list.json["kind"], "PartialObjectMetadataList");
  EXPECT_EQ(list.json["items"][0]["kind"], "PartialObjectMetadata");
  EXPECT_FALSE(list.json["items"][0].contains("data"));
  const auto refused = Call("GET", kConfigMaps, "", "Accept: text/html\r\n");
  EXPECT_EQ(refused.code, 406);
  EXPECT_EQ(refused.message(),
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
            "application/vnd.kubernetes.protobuf;stream=watch");
  EXPECT_EQ(Call("GET", At(kConfigMaps, "c0000"), "", "Accept: text/html\r\n").message(),
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(Call("GET", kConfigMaps, "", "Accept: text/html,application/json\r\n").code, 200);
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

struct Form {
  std::string_view accept;
  std::string_view list;
  std::string_view version;
  std::string_view watch;
};

TEST_F(ReadTest, EveryFormComesInBothVersionsAndAlsoInWatches) {
  CreateMany(1);
  constexpr Form kForms[] = {
      {"as=Table;v=v1;g=meta.k8s.io", "Table", "meta.k8s.io/v1", "Table"},
      {"as=Table;v=v1beta1;g=meta.k8s.io", "Table", "meta.k8s.io/v1beta1", "Table"},
      {"as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "PartialObjectMetadataList",
       "meta.k8s.io/v1", "PartialObjectMetadata"},
      {"as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", "PartialObjectMetadataList",
       "meta.k8s.io/v1beta1", "PartialObjectMetadata"},
  };
  for (const Form& form : kForms) {
    const std::string headers = fmt::format("Accept: application/json;{}\r\n", form.accept);
    const auto list = Call("GET", kConfigMaps, "", headers);
    EXPECT_EQ(list.json["kind"], Json(std::string(form.list))) << form.accept;
    EXPECT_EQ(list.json["apiVersion"], Json(std::string(form.version))) << form.accept;
    OpenWatch watch(socket(), kConfigMaps, "", headers);
    const Json object = watch.Next()["object"];
    EXPECT_EQ(object["kind"], Json(std::string(form.watch))) << form.accept;
    EXPECT_EQ(object["apiVersion"], Json(std::string(form.version))) << form.accept;
  }
  const auto other =
      Call("GET", kConfigMaps, "", "Accept: application/json;as=Table;v=v2;g=meta.k8s.io\r\n");
  EXPECT_EQ(other.code, 406);
  EXPECT_EQ(other.message(),
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf");
}

}  // namespace
}  // namespace berth::apiserver
