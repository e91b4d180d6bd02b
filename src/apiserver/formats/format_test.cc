// Bodies and answers in protobuf and YAML, and what is said of unknown and duplicate fields.
#include "api/codecs/protobuf.h"
#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kSendProtobuf =
    "Content-Type: application/vnd.kubernetes.protobuf\r\n"
    "Accept: application/vnd.kubernetes.protobuf,application/json\r\n";
constexpr std::string_view kWantProtobuf =
    "Accept: application/vnd.kubernetes.protobuf, application/json\r\n";

class FormatTest : public ApiTest {
 protected:
  // What an envelope holds, with its apiVersion and kind, as JSON.
  static Json Read(std::string_view body) {
    const auto envelope = api::OpenEnvelope(body);
    if (!envelope.ok()) return base::ToString(envelope.status());
    const api::Schema* schema = api::SchemaOf(envelope->api_version, envelope->kind);
    if (schema == nullptr) return "no schema";
    Json object = api::DecodeMessage(*schema, envelope->message).value_or(Json());
    object["apiVersion"] = std::string(envelope->api_version);
    object["kind"] = std::string(envelope->kind);
    return object;
  }

  static std::string Write(std::string_view api_version, std::string_view kind,
                           const Json& object) {
    std::string message;
    api::AppendMessage(*api::SchemaOf(api_version, kind), base::json::Dump(object), message);
    return api::MakeEnvelope(api_version, kind, message);
  }
};

TEST_F(FormatTest, ProtobufGoesInAndOut) {
  const auto created = Call("POST", kPods, Write("v1", "Pod", PodNamed("p")), kSendProtobuf);
  EXPECT_EQ(created.code, 201) << created.body;
  EXPECT_THAT(created.head, HasSubstr("Content-Type: application/vnd.kubernetes.protobuf\r\n"));
  Json pod = Read(created.body);
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["metadata"]["resourceVersion"], std::to_string(store_->current()));
  // What one writes as protobuf another reads as JSON.
  EXPECT_EQ(Get(At(kPods, "p")).json["spec"], pod["spec"]);
  EXPECT_EQ(Read(Call("GET", At(kPods, "p"), "", kWantProtobuf).body), pod);

  pod["metadata"]["labels"] = {{"a", "b"}};
  const auto put = Call("PUT", At(kPods, "p"), Write("v1", "Pod", pod), kSendProtobuf);
  EXPECT_EQ(put.code, 200);
  EXPECT_EQ(Read(put.body)["metadata"]["labels"], pod["metadata"]["labels"]);
}

TEST_F(FormatTest, ListsAsProtobuf) {
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(Post(kConfigMaps, ConfigMap(name, {{"k", name}})).code, 201);
  }
  const auto list = Call("GET", std::string(kConfigMaps) + "?limit=1", "", kWantProtobuf);
  EXPECT_EQ(list.code, 200);
  const Json read = Read(list.body);
  EXPECT_EQ(read["kind"], "ConfigMapList");
  ASSERT_EQ(read["items"].size(), 1U);
  EXPECT_EQ(read["items"][0]["data"]["k"], "a");
  EXPECT_FALSE(read["metadata"]["continue"].empty());
  EXPECT_EQ(Read(Call("GET", kPods, "", kWantProtobuf).body)["kind"], "PodList");
}

// The size of such a list stands before it; it is not kept in memory for that.
TEST_F(FormatTest, ALargeListAsProtobufComesInPieces) {
  for (int i = 0; i < 40; ++i) {
    const Json data = {{"k", std::string(100'000, static_cast<char>('a' + i % 26))}};
    ASSERT_EQ(Post(kConfigMaps, ConfigMap(fmt::format("m{:02}", i), data)).code, 201);
  }
  const auto list = Call("GET", kConfigMaps, "", kWantProtobuf);
  EXPECT_THAT(list.head, HasSubstr("chunked"));
  const Json read = Read(list.body);
  ASSERT_EQ(read["items"].size(), 40U);
  EXPECT_EQ(read["items"][39]["metadata"]["name"], "m39");
  EXPECT_EQ(read["metadata"]["resourceVersion"], std::to_string(store_->current()));
}

TEST_F(FormatTest, MetadataAloneAsProtobuf) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a", {{"k", "v"}})).code, 201);
  const auto list = Call("GET", kConfigMaps, "",
                         "Accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;"
                         "g=meta.k8s.io;v=v1\r\n");
  const Json read = Read(list.body);
  EXPECT_EQ(read["kind"], "PartialObjectMetadataList");
  EXPECT_EQ(read["items"][0]["metadata"]["name"], "a");
  EXPECT_FALSE(read["items"][0].contains("data"));
}

TEST_F(FormatTest, WatchesAsProtobuf) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a", {{"k", "v"}})).code, 201);
  TestConnection watch(socket());
  watch.Send(RequestText("GET",
                         std::string(kConfigMaps) +
                             "?watch=1&sendInitialEvents=true&"
                             "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                         "", "Accept: application/vnd.kubernetes.protobuf;stream=watch\r\n"));
  EXPECT_THAT(watch.ReadUntil("\r\n\r\n"),
              HasSubstr("Content-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n"));
  std::string bytes;
  const auto take = [&](size_t size) {
    while (bytes.size() < size) {
      const std::string chunk = watch.ReadChunk();
      if (chunk.empty()) return std::string();
      bytes += chunk;
    }
    std::string out = bytes.substr(0, size);
    bytes.erase(0, size);
    return out;
  };
  std::vector<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    size_t size = 0;
    for (const char c : take(4)) size = size << 8 | static_cast<unsigned char>(c);
    ASSERT_GT(size, 0U);
    std::string frame = take(size);
    // The object is bytes, not JSON: its envelope ends the event.
    const size_t at = frame.find("k8s");
    ASSERT_NE(at, std::string::npos);
    const Json object = Read(frame.substr(at));
    seen.push_back(fmt::format("{} {}", frame.substr(2, static_cast<size_t>(frame[1])),
                               base::json::String(object, {"metadata", "name"})));
    if (i == 1) ASSERT_EQ(Delete(At(kConfigMaps, "a")).code, 200);
  }
  EXPECT_THAT(seen, testing::ElementsAre("ADDED a", "BOOKMARK ", "DELETED a"));
}

TEST_F(FormatTest, ErrorsAndStatusesAsProtobuf) {
  const auto missing = Call("GET", At(kPods, "none"), "", kWantProtobuf);
  EXPECT_EQ(missing.code, 404);
  const Json status = Read(missing.body);
  EXPECT_EQ(status["kind"], "Status");
  EXPECT_EQ(status["reason"], "NotFound");
  EXPECT_EQ(status["code"], 404);

  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  const auto wrong =
      Call("DELETE", At(kConfigMaps, "a"), Write("v1", "Status", Json::object()), kSendProtobuf);
  EXPECT_EQ(wrong.code, 400);
  std::string options;
  api::AppendMessage(*api::NamedSchema("DeleteOptions"), R"({"preconditions":{"uid":"x"}})",
                     options);
  const std::string body = api::MakeEnvelope("v1", "DeleteOptions", options);
  EXPECT_EQ(Call("DELETE", At(kConfigMaps, "a"), body, kSendProtobuf).code, 409);
}

TEST_F(FormatTest, OnlyKindsWithMessagesAreProtobuf) {
  constexpr std::string_view kHostMounts =
      "/apis/storage.berth.dev/v1alpha1/namespaces/default/hostmounts";
  const auto refused =
      Call("GET", kHostMounts, "", "Accept: application/vnd.kubernetes.protobuf\r\n");
  EXPECT_EQ(refused.code, 406);
  EXPECT_EQ(refused.message(),
            "only the following media types are accepted: application/json, application/yaml, "
            "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(Call("POST", kHostMounts, "k8s", kSendProtobuf).code, 415);
  // What could not be answered for is not written.
  EXPECT_EQ(Call("POST", kConfigMaps, R"({"metadata":{"name":"a"}})", "Accept: text/html\r\n").code,
            406);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
  EXPECT_EQ(Call("GET", kHostMounts, "", kWantProtobuf).json["kind"], "HostMountList");
  // A table is not served as protobuf either: the reply is the list in JSON.
  EXPECT_EQ(Call("GET", kPods, "",
                 "Accept: application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,"
                 "application/json\r\n")
                .json["kind"],
            "PodList");
}

TEST_F(FormatTest, BrokenProtobufIsABadRequest) {
  for (const std::string& body :
       {std::string("k8s"), std::string("k8s\0\x0a\xff", 6), Write("v1", "Secret", ConfigMap("a")),
        api::MakeEnvelope("v1", "ConfigMap", "\x0a\x7f")}) {
    const auto refused =
        Call("POST", kConfigMaps, body, "Content-Type: application/vnd.kubernetes.protobuf\r\n");
    EXPECT_EQ(refused.code, 400) << refused.body;
    EXPECT_EQ(refused.reason(), "BadRequest");
  }
}

TEST_F(FormatTest, YamlGoesInAndOut) {
  const auto created = Call("POST", kConfigMaps, "metadata:\n  name: a\ndata:\n  k: v\n",
                            "Content-Type: application/yaml\r\nAccept: application/yaml\r\n");
  EXPECT_EQ(created.code, 201);
  EXPECT_THAT(created.head, HasSubstr("Content-Type: application/yaml\r\n"));
  EXPECT_THAT(created.body, HasSubstr("data:\n  k: v\nkind: ConfigMap\n"));
  const auto list = Call("GET", kConfigMaps, "", "Accept: application/yaml\r\n");
  EXPECT_THAT(list.body,
              HasSubstr("apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    k: v\n"));
  EXPECT_THAT(list.body, HasSubstr("kind: ConfigMapList\nmetadata:\n  resourceVersion:"));
  EXPECT_THAT(Call("GET", kPods, "", "Accept: application/yaml\r\n").body,
              HasSubstr("items: []\n"));
}

TEST_F(FormatTest, UnknownFieldsWarnAndAreDropped) {
  Json pod = PodNamed("p");
  pod["spec"]["containers"][0]["comand"] = {"sh"};
  const auto created = Post(kPods, pod);
  EXPECT_EQ(created.code, 201);
  EXPECT_THAT(created.head,
              HasSubstr("Warning: 299 - \"unknown field \\\"spec.containers[0].comand\\\"\"\r\n"));
  EXPECT_FALSE(created.json["spec"]["containers"][0].contains("comand"));

  const auto silent = Post(std::string(kPods) + "?fieldValidation=Ignore&dryRun=All", pod);
  EXPECT_THAT(silent.head, Not(HasSubstr("Warning")));
}

TEST_F(FormatTest, StrictRefusesUnknownAndDuplicateFields) {
  const std::string strict = std::string(kConfigMaps) + "?fieldValidation=Strict";
  const auto refused =
      Call("POST", strict, R"({"metadata":{"name":"a","name":"b"},"dat":{"k":"v"}})");
  EXPECT_EQ(refused.code, 400);
  EXPECT_EQ(refused.message(),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: "
            "duplicate field \"metadata.name\", unknown field \"dat\"");
  const auto yaml = Call("POST", strict, "metadata:\n  name: a\n  name: b\n",
                         "Content-Type: application/yaml\r\n");
  EXPECT_EQ(yaml.code, 400);
  EXPECT_THAT(yaml.message(), HasSubstr("key \"name\" already set in map"));
  EXPECT_EQ(Call("POST", strict, R"({"metadata":{"name":"a"},"data":{"k":"v"}})").code, 201);

  const std::string patch = At(kConfigMaps, "a") + "?fieldValidation=Strict";
  const auto unfit = Patch(patch, {{"dat", {{"k", "v"}}}});
  EXPECT_EQ(unfit.code, 422);
  EXPECT_THAT(unfit.message(), HasSubstr("strict decoding error: unknown field \"dat\""));
  EXPECT_EQ(Patch(patch, {{"data", {{"k", "w"}}}}).code, 200);
  const auto twice = Call("PATCH", patch, R"({"data":{"k":"1","k":"2"}})",
                          "Content-Type: application/merge-patch+json\r\n");
  EXPECT_THAT(twice.message(), HasSubstr("duplicate field \"data.k\""));
  EXPECT_EQ(Post(std::string(kConfigMaps) + "?fieldValidation=Perhaps", ConfigMap("x")).code, 422);
}

TEST_F(FormatTest, ExtensionsOfBerthAreKnownFields) {
  const auto created = Post(
      "/apis/storage.k8s.io/v1/storageclasses?fieldValidation=Strict",
      {{"metadata", {{"name", "c"}}}, {"provisioner", "d"}, {"allowRuntimeAssistedMount", true}});
  EXPECT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["allowRuntimeAssistedMount"], true);
}

}  // namespace
}  // namespace berth::apiserver
