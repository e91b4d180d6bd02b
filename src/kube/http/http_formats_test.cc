// How the client reads and writes objects in protobuf, and how it falls back to JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/codecs/protobuf.h"
#include "api/kinds/kinds.h"
#include "kube/http/fake_http_server.h"
#include "kube/http/http_client.h"
#include "kube/informers/informer.h"

namespace berth::kube {
namespace {

using api::kinds::kLease;
using api::kinds::kPersistentVolume;
using api::kinds::kStorageClass;
using base::StatusCode;
using nlohmann::literals::operator""_json;
using Request = FakeHttpServer::Request;
using Wire = FakeHttpServer::Wire;

constexpr std::string_view kBoth =
    "accept: application/vnd.kubernetes.protobuf,application/json\r\n";
constexpr std::string_view kJsonOnly = "accept: application/json\r\n";

std::unique_ptr<Client> ProtobufClientOf(const FakeHttpServer& server) {
  Config config;
  config.socket = server.socket_path();
  auto client = NewHttpClient(config, {.format = ObjectFormat::kProtobuf});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// The object in protobuf, with `extra` bytes behind its message.
std::string Encode(const Json& object, std::string_view extra = "") {
  const std::string api_version = base::json::String(object, {"apiVersion"});
  const std::string kind = base::json::String(object, {"kind"});
  std::string message;
  EXPECT_TRUE(
      api::AppendMessage(*api::SchemaOf(api_version, kind), base::json::Dump(object), message));
  message += extra;
  return api::MakeEnvelope(api_version, kind, message);
}

// A field that no message has.
std::string UnknownField() {
  std::string field;
  api::AppendField(1000, "of a newer Kubernetes", field);
  return field;
}

Json MakeVolume(std::string_view name, std::string_view version) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata", {{"name", name}, {"resourceVersion", version}}},
          {"spec", {{"volumeMode", "Block"}}}};
}

// The same as JSON, with a field that this program does not know.
Json MakeNewVolume(std::string_view name, std::string_view version) {
  Json volume = MakeVolume(name, version);
  volume["spec"]["newField"] = "x";
  return volume;
}

Json MakeStatus(int code, std::string_view reason, std::string_view message) {
  return {{"apiVersion", "v1"}, {"kind", "Status"}, {"status", "Failure"},
          {"code", code},       {"reason", reason}, {"message", message}};
}

bool AsksForProtobuf(const Request& request) { return request.HasHeader(kBoth); }

TEST(HttpFormatsTest, ObjectsAndListsAreReadAsProtobuf) {
  Json volume = MakeVolume("a", "5");
  volume["metadata"]["managedFields"] = Json::array({{{"manager", "m"}}});
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    if (!request.target.ends_with("/persistentvolumes")) {
      return wire.SendAnswer(200, Encode(volume));
    }
    return wire.SendAnswer(200, Encode({{"apiVersion", "v1"},
                                        {"kind", "PersistentVolumeList"},
                                        {"metadata", {{"resourceVersion", "7"}, {"continue", "c"}}},
                                        {"items", {volume}}}));
  });
  auto client = ProtobufClientOf(server);
  const auto got = client->Get(kPersistentVolume, "", "a");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, volume);
  const auto list = client->List(kPersistentVolume, "", {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "7");
  EXPECT_EQ(list->continue_token, "c");
  ASSERT_EQ(list->items.size(), 1U);
  EXPECT_EQ(list->items[0], MakeVolume("a", "5")) << "without managedFields";
  for (const Request& request : server.requests()) EXPECT_TRUE(AsksForProtobuf(request));
}

Json MakeVolumeList(const std::vector<Json>& items) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeList"},
          {"metadata", {{"resourceVersion", "7"}}},
          {"items", items}};
}

// Lists the volumes in a page of up to 10,000, and returns those that were passed on one by one.
std::vector<Json> ListOneByOne(const FakeHttpServer& server) {
  std::vector<Json> items;
  const auto list = ProtobufClientOf(server)->List(
      kPersistentVolume, "",
      {.limit = 10'000, .on_item = [&](Json item) { items.push_back(std::move(item)); }});
  EXPECT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list.ok() && list->items.empty());
  EXPECT_EQ(list.ok() ? list->resource_version : "", "7");
  return items;
}

bool SyncVolumes(Informer<api::PersistentVolume>& informer) {
  informer.Start();
  return informer.WaitForSync(std::chrono::steady_clock::now() + std::chrono::seconds(10));
}

TEST(HttpFormatsTest, TheObjectsOfAPageArePassedOnOneByOne) {
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(200,
                           Encode(MakeVolumeList({MakeVolume("a", "5"), MakeVolume("b", "6")})));
  });
  EXPECT_THAT(ListOneByOne(server),
              testing::ElementsAre(MakeVolume("a", "5"), MakeVolume("b", "6")));
  EXPECT_TRUE(server.requests()[0].target.ends_with("?limit=10000"));
}

TEST(HttpFormatsTest, APageInJsonIsShortAndEndsTheSameWay) {
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    if (AsksForProtobuf(request)) return wire.SendAnswer(406, "");
    return wire.SendAnswer(
        200, base::json::Dump(MakeVolumeList({MakeNewVolume("a", "5"), MakeNewVolume("b", "6")})));
  });
  EXPECT_THAT(ListOneByOne(server),
              testing::ElementsAre(MakeNewVolume("a", "5"), MakeNewVolume("b", "6")));
  EXPECT_TRUE(server.requests().back().target.ends_with("?limit=500"))
      << "its objects are decoded together";
}

TEST(HttpFormatsTest, APageThatIsLongerThanAPageMayBeIsRefused) {
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(200, std::string(17 * 1024 * 1024, ' '));
  });
  const auto list = ProtobufClientOf(server)->List(kPersistentVolume, "", {.limit = 10'000});
  EXPECT_EQ(list.status().code(), StatusCode::kResourceExhausted);
}

TEST(HttpFormatsTest, AListInJsonIsDividedFromWhatWasAskedFor) {
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    if (request.target.find("watch=true") != std::string::npos) return !wire.WaitForClose();
    if (AsksForProtobuf(request)) return wire.SendAnswer(406, "");
    if (request.target.ends_with("?limit=500")) {
      return wire.SendAnswer(200, std::string(17 * 1024 * 1024, ' '));
    }
    return wire.SendAnswer(200, base::json::Dump(MakeVolumeList({MakeVolume("a", "5")})));
  });
  auto client = ProtobufClientOf(server);
  Informer<api::PersistentVolume> informer(*client);
  ASSERT_TRUE(SyncVolumes(informer));
  const auto requests = server.requests();
  ASSERT_GE(requests.size(), 3U);
  EXPECT_TRUE(requests[1].target.ends_with("?limit=500"));
  EXPECT_TRUE(requests[2].target.ends_with("?limit=125"));
}

TEST(HttpFormatsTest, AVolumeDeletedBeforeTheFirstPageIsReadAgainIsNotKept) {
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    if (request.target.find("watch=true") != std::string::npos) return !wire.WaitForClose();
    return wire.SendAnswer(
        200, AsksForProtobuf(request)
                 ? Encode(MakeVolumeList({MakeVolume("deleted", "5")}), UnknownField())
                 : base::json::Dump(MakeVolumeList({MakeNewVolume("b", "6")})));
  });
  auto client = ProtobufClientOf(server);
  Informer<api::PersistentVolume> informer(*client);
  ASSERT_TRUE(SyncVolumes(informer));
  EXPECT_EQ(informer.Get("", "deleted"), nullptr);
  ASSERT_NE(informer.Get("", "b"), nullptr);
  EXPECT_EQ(informer.Get("", "b")->json(), MakeNewVolume("b", "6"));
}

TEST(HttpFormatsTest, ALaterPageThatFailsIsReadAgain) {
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    if (AsksForProtobuf(request)) {
      return wire.SendAnswer(200, Encode(MakeVolumeList({MakeVolume("a", "5")}), UnknownField()));
    }
    return wire.SendAnswer(200, base::json::Dump(MakeVolumeList({MakeNewVolume("a", "5")})));
  });
  std::vector<Json> items;
  const auto list = ProtobufClientOf(server)->List(
      kPersistentVolume, "",
      {.continue_token = "c", .on_item = [&](Json item) { items.push_back(std::move(item)); }});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(items, testing::ElementsAre(MakeVolume("a", "5"), MakeNewVolume("a", "5")));
}

TEST(HttpFormatsTest, MetadataIsReadAsProtobuf) {
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(200,
                           Encode({{"apiVersion", "meta.k8s.io/v1"},
                                   {"kind", "PartialObjectMetadataList"},
                                   {"items", Json::array({{{"metadata", {{"name", "a"}}}}})}}));
  });
  const auto list = ProtobufClientOf(server)->List(kPersistentVolume, "", {.metadata_only = true});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->items.size(), 1U);
  EXPECT_EQ(list->items[0],
            R"({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}})"_json);
  EXPECT_TRUE(server.requests()[0].HasHeader(
      "accept: application/vnd.kubernetes.protobuf;as=partialobjectmetadatalist;g=meta.k8s.io;v=v1,"
      "application/json;as=partialobjectmetadatalist;g=meta.k8s.io;v=v1,application/json\r\n"));
}

TEST(HttpFormatsTest, KindsWithFieldsThatOnlyJsonHasAreJson) {
  const api::KindInfo custom{.group = "snapshot.storage.k8s.io",
                             .version = "v1",
                             .kind = "VolumeSnapshot",
                             .plural = "volumesnapshots",
                             .singular = "volumesnapshot"};
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(200, R"({"metadata": {"name": "x"}})");
  });
  auto client = ProtobufClientOf(server);
  ASSERT_TRUE(client->Get(kStorageClass, "", "x").ok());
  ASSERT_TRUE(client->Create(custom, "", R"({"metadata": {"name": "x"}})"_json).ok());
  for (const Request& request : server.requests()) EXPECT_TRUE(request.HasHeader(kJsonOnly));
  EXPECT_TRUE(server.requests()[1].HasHeader("content-type: application/json\r\n"));
}

TEST(HttpFormatsTest, ObjectsAreWrittenAsProtobufAndPatchesAsJson) {
  const Json volume = MakeVolume("a", "5");
  FakeHttpServer server(
      [&](const Request&, Wire& wire) { return wire.SendAnswer(200, Encode(volume)); });
  auto client = ProtobufClientOf(server);
  for (const auto& written :
       {client->Create(kPersistentVolume, "", volume),
        client->Update(kPersistentVolume, volume, ""),
        client->Patch(kPersistentVolume, "", "a", PatchType::kMerge, R"({"x": null})"_json, "")}) {
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, volume);
  }
  ASSERT_TRUE(client->Delete(kPersistentVolume, "", "a", {.uid = "u"}).ok());
  const auto requests = server.requests();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(requests[i].HasHeader("content-type: application/vnd.kubernetes.protobuf\r\n"));
    EXPECT_EQ(requests[i].body, Encode(volume));
  }
  EXPECT_EQ(requests[2].body, R"({"x":null})");
  EXPECT_TRUE(requests[3].body.starts_with('{'));
  for (const Request& request : requests) EXPECT_TRUE(AsksForProtobuf(request));
}

TEST(HttpFormatsTest, AnObjectWithAMemberThatProtobufLosesIsWrittenAsJson) {
  const Json volume = MakeNewVolume("a", "5");
  FakeHttpServer server(
      [&](const Request& request, Wire& wire) { return wire.SendAnswer(200, request.body); });
  const auto written = ProtobufClientOf(server)->Update(kPersistentVolume, volume, "");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(*written, volume);
}

TEST(HttpFormatsTest, ErrorsAreReadAsProtobuf) {
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(409, Encode(MakeStatus(409, "AlreadyExists", "it is there")));
  });
  const Status status =
      ProtobufClientOf(server)->Create(kPersistentVolume, "", MakeVolume("a", "")).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(base::Message(status), "it is there");
}

// A server whose objects have a field that this program does not know.
bool AnswerAsNewerKubernetes(const Request& request, Wire& wire) {
  return wire.SendAnswer(200, AsksForProtobuf(request)
                                  ? Encode(MakeVolume("a", "5"), UnknownField())
                                  : base::json::Dump(MakeNewVolume("a", "5")));
}

TEST(HttpFormatsTest, AnObjectWithAnUnknownFieldIsReadWhole) {
  FakeHttpServer server(AnswerAsNewerKubernetes);
  auto client = ProtobufClientOf(server);
  const auto got = client->Get(kPersistentVolume, "", "a");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, MakeNewVolume("a", "5"));
  ASSERT_TRUE(client->Get(kPersistentVolume, "", "a").ok());
  EXPECT_EQ(server.requests().size(), 3U) << "the kind is asked for as JSON from then on";
}

TEST(HttpFormatsTest, AWriteThatReturnsAnUnknownFieldGivesTheWholeObject) {
  FakeHttpServer server(AnswerAsNewerKubernetes);
  const auto written = ProtobufClientOf(server)->Patch(
      kPersistentVolume, "", "a", PatchType::kMerge, R"({"spec": {}})"_json, "");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(*written, MakeNewVolume("a", "5"));
  EXPECT_EQ(server.requests().size(), 2U) << "the write is not made again";
  EXPECT_EQ(server.requests()[1].method, "GET");
}

TEST(HttpFormatsTest, AWriteWhoseObjectCannotBeReadWholeGivesNoPartOfIt) {
  int code = 0;
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    return request.method == "GET"
               ? wire.SendAnswer(code, "no")
               : wire.SendAnswer(200, Encode(MakeVolume("a", "5"), UnknownField()));
  });
  const auto patch = [&] {
    return ProtobufClientOf(server)->Patch(kPersistentVolume, "", "a", PatchType::kMerge,
                                           R"({"spec": {}})"_json, "");
  };
  code = 500;
  EXPECT_EQ(patch().status().code(), StatusCode::kUnavailable);
  for (const int harmless : {403, 404}) {
    code = harmless;
    const auto written = patch();
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, MakeVolume("a", "5"));
  }
}

TEST(HttpFormatsTest, ATextThatIsNotUtf8IsReadAsJson) {
  FakeHttpServer server([](const Request& request, Wire& wire) {
    std::string metadata, name;
    api::AppendField(1, "\xff", name);
    api::AppendField(1, name, metadata);
    return wire.SendAnswer(200, AsksForProtobuf(request)
                                    ? api::MakeEnvelope("v1", "PersistentVolume", metadata)
                                    : R"({"metadata": {"name": "\ufffd"}})");
  });
  const auto got = ProtobufClientOf(server)->Get(kPersistentVolume, "", "a");
  ASSERT_TRUE(got.ok()) << got.status();
}

TEST(HttpFormatsTest, AServerWithoutProtobufIsAskedForJson) {
  for (const int code : {406, 415}) {
    const Json volume = MakeVolume("a", "5");
    FakeHttpServer server([&](const Request& request, Wire& wire) {
      if (AsksForProtobuf(request)) return wire.SendAnswer(code, "no such type");
      return wire.SendAnswer(200, base::json::Dump(volume));
    });
    auto client = ProtobufClientOf(server);
    const auto created = client->Create(kPersistentVolume, "", volume);
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_EQ(server.requests()[1].body, base::json::Dump(volume));
    ASSERT_TRUE(client->Get(kPersistentVolume, "", "a").ok());
    EXPECT_EQ(server.requests().size(), 3U);
  }
  FakeHttpServer server([&](const Request& request, Wire& wire) {
    return AsksForProtobuf(request) ? wire.SendAnswer(406, "no such type")
                                    : wire.SendAnswer(200, R"({"metadata": {}})");
  });
  EXPECT_TRUE(ProtobufClientOf(server)->Get(kLease, "default", "a").ok());
}

// -- watches

struct Seen {
  Status status;
  std::vector<std::string> names;  // of the objects, in order
};

Seen WatchVolumes(Client& client, std::string_view version = "5") {
  Seen seen;
  ListOptions options;
  options.resource_version = version;
  seen.status = client.Watch(kPersistentVolume, "", options, {}, [&](WatchEvent event) {
    EXPECT_EQ(event.object["kind"], "PersistentVolume");
    seen.names.push_back(base::json::String(event.object, {"metadata", "name"}));
    return true;
  });
  return seen;
}

std::string Frame(std::string_view type, std::string_view name, std::string_view version,
                  std::string_view extra = "") {
  return api::MakeWatchFrame(type, Encode(MakeVolume(name, version), extra));
}

TEST(HttpFormatsTest, AWatchReadsFramesThatComeInPieces) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    const std::string frames =
        Frame("ADDED", "a", "6") + Frame("MODIFIED", "b", "7") + Frame("BOOKMARK", "c", "8");
    wire.SendChunk(std::string_view(frames).substr(0, 2));
    wire.SendChunk(std::string_view(frames).substr(2, 9));
    wire.SendChunk(std::string_view(frames).substr(11));
    return wire.EndChunks();
  });
  const Seen seen = WatchVolumes(*ProtobufClientOf(server));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_THAT(seen.names, testing::ElementsAre("a", "b", "c"));
  EXPECT_TRUE(AsksForProtobuf(server.requests()[0]));
}

TEST(HttpFormatsTest, AWatchReadsLinesWhereTheServerSendsThem) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(base::json::Dump({{"type", "ADDED"}, {"object", MakeVolume("a", "6")}}) + "\n");
    return wire.EndChunks();
  });
  const Seen seen = WatchVolumes(*ProtobufClientOf(server));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_THAT(seen.names, testing::ElementsAre("a"));
}

TEST(HttpFormatsTest, AnErrorInAWatchHasItsCode) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(api::MakeWatchFrame("ERROR", Encode(MakeStatus(410, "Expired", "too old"))));
    return wire.EndChunks();
  });
  const Seen seen = WatchVolumes(*ProtobufClientOf(server));
  EXPECT_EQ(seen.status.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(base::Message(seen.status), "too old");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(HttpFormatsTest, AWatchWithAnUnknownFieldGoesOnAsJsonBehindTheLastEvent) {
  FakeHttpServer server([](const Request& request, Wire& wire) {
    wire.BeginChunks();
    if (AsksForProtobuf(request)) {
      wire.SendChunk(Frame("ADDED", "a", "6") + Frame("ADDED", "b", "7", UnknownField()));
    } else {
      wire.SendChunk(base::json::Dump({{"type", "ADDED"}, {"object", MakeNewVolume("b", "7")}}) +
                     "\n");
    }
    return wire.EndChunks();
  });
  const Seen seen = WatchVolumes(*ProtobufClientOf(server));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_THAT(seen.names, testing::ElementsAre("a", "b"));
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_THAT(server.requests()[1].target, testing::HasSubstr("resourceVersion=6"));
}

TEST(HttpFormatsTest, AWatchThatIsRefusedInProtobufIsMadeAsJson) {
  FakeHttpServer server([](const Request& request, Wire& wire) {
    if (AsksForProtobuf(request)) return wire.SendAnswer(406, "no such type");
    wire.BeginChunks();
    return wire.EndChunks();
  });
  const Seen seen = WatchVolumes(*ProtobufClientOf(server));
  EXPECT_TRUE(seen.status.ok()) << seen.status;
  EXPECT_THAT(server.requests()[1].target, testing::HasSubstr("resourceVersion=5"));
}

TEST(HttpFormatsTest, AFrameThatIsTooLongEndsTheWatch) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(std::string_view("\x40\0\0\0", 4));
    return !wire.WaitForClose();
  });
  EXPECT_EQ(WatchVolumes(*ProtobufClientOf(server)).status.code(), StatusCode::kResourceExhausted);
}

TEST(HttpFormatsTest, AFrameThatIsNoEventEndsTheWatch) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(std::string_view("\0\0\0\3abc", 7));
    return wire.EndChunks();
  });
  EXPECT_EQ(WatchVolumes(*ProtobufClientOf(server)).status.code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace berth::kube
