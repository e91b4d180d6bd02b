// The documents by which clients find out what is served.

#include "apiserver/documents/discovery.h"

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kV2 =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
constexpr std::string_view kV2Beta1 =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

class DiscoveryTest : public ApiTest {
 protected:
  TestResponse GetAs(std::string_view path, std::string_view accept,
                     std::string_view headers = "") {
    return Call("GET", path, "", fmt::format("Accept: {}\r\n{}", accept, headers));
  }
  static std::string HeaderOf(const TestResponse& response, std::string_view name) {
    const std::string mark = fmt::format("\r\n{}: ", name);
    const size_t at = response.head.find(mark);
    if (at == std::string::npos) return "";
    const size_t begin = at + mark.size();
    return response.head.substr(begin, response.head.find("\r\n", begin) - begin);
  }
};

TEST_F(DiscoveryTest, NamesEveryKindWithItsVerbs) {
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    const auto list = Get(info->url_prefix());
    ASSERT_EQ(list.code, 200) << info->url_prefix();
    EXPECT_EQ(list.json["kind"], "APIResourceList");
    EXPECT_EQ(list.json["groupVersion"], info->api_version());
    const Json& resources = list.json["resources"];
    EXPECT_TRUE(std::any_of(resources.begin(), resources.end(), [&](const Json& resource) {
      return resource["name"] == std::string(info->plural) &&
             resource["kind"] == std::string(info->kind) &&
             resource["namespaced"] == info->namespaced && !resource["verbs"].empty();
    })) << info->plural;
  }
}

TEST_F(DiscoveryTest, TellsGroupsAndTheirVersions) {
  const auto api = Get("/api");
  EXPECT_EQ(api.json["kind"], "APIVersions");
  EXPECT_EQ(api.json["versions"], Json::array({"v1"}));
  EXPECT_EQ(api.json["serverAddressByClientCIDRs"][0]["serverAddress"],
            fmt::format("127.0.0.1:{}", server_->port()));
  const auto apis = Get("/apis");
  EXPECT_EQ(apis.json["kind"], "APIGroupList");
  for (const Json& group : apis.json["groups"]) {
    EXPECT_NE(group["name"], "");
    EXPECT_EQ(group["versions"][0], group["preferredVersion"]);
    const auto one = Get("/apis/" + group["name"].get<std::string>());
    EXPECT_EQ(one.json["kind"], "APIGroup");
    EXPECT_EQ(one.json["versions"], group["versions"]);
  }
  EXPECT_EQ(Get("/apis/storage.k8s.io/").json["preferredVersion"]["version"], "v1");
  EXPECT_EQ(Get("/apis/unknown.example").code, 404);
  EXPECT_EQ(Get("/apis/storage.k8s.io/v9").code, 404);
  EXPECT_EQ(Call("POST", "/apis", "{}").code, 405);
}

struct Negotiation {
  std::string accept;
  std::string_view kind;
  std::string_view content_type;
};

TEST_F(DiscoveryTest, TheFormIsTheOneThatWasAskedFor) {
  const std::string v2(kV2);
  const std::string beta(kV2Beta1);
  const Negotiation cases[] = {
      {"application/json", "APIGroupList", "application/json"},
      {"*/*", "APIGroupList", "application/json"},
      {"application/vnd.kubernetes.protobuf, */*", "APIGroupList", "application/json"},
      {v2 + "," + beta + ",application/json", "APIGroupDiscoveryList", kV2},
      {beta + ",application/json", "APIGroupDiscoveryList", kV2Beta1},
      {beta + "," + v2, "APIGroupDiscoveryList", kV2Beta1},
      {beta + ";q=0.1," + v2 + ";q=0.9", "APIGroupDiscoveryList", kV2},
      {v2 + ";profile=nopeer," + v2, "APIGroupDiscoveryList", kV2},
      // The order of the parameters is free, and one that asks for it gets it.
      {"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
       "APIGroupDiscoveryList", kV2},
      {"application/json," + v2, "APIGroupDiscoveryList", kV2},
      // What is nearly right isn't.
      {"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json",
       "APIGroupList", "application/json"},
      {"application/json;g=apidiscovery.k8s.io;v=v2;as=Table,application/json", "APIGroupList",
       "application/json"},
      {"text/html;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
       "APIGroupList", "application/json"},
  };
  for (const Negotiation& one : cases) {
    const auto list = GetAs("/apis", one.accept);
    ASSERT_EQ(list.code, 200) << one.accept;
    EXPECT_EQ(list.json["kind"], Json(std::string(one.kind))) << one.accept;
    EXPECT_EQ(HeaderOf(list, "Content-Type"), one.content_type) << one.accept;
  }
  EXPECT_EQ(GetAs("/apis", "text/html").code, 406);
  EXPECT_EQ(GetAs("/api/v1", "application/vnd.kubernetes.protobuf").code, 406);
}

TEST_F(DiscoveryTest, AggregatedSaysTheSameAsPlain) {
  for (const std::string_view accept : {kV2, kV2Beta1}) {
    std::vector<std::string> aggregated;
    for (const char* path : {"/api", "/apis"}) {
      const auto list = GetAs(path, accept);
      EXPECT_THAT(list.json["apiVersion"].get<std::string>(), StartsWith("apidiscovery.k8s.io/v2"));
      for (const Json& group : list.json["items"]) {
        EXPECT_EQ(group["metadata"]["name"] == "", path == std::string_view("/api"));
        for (const Json& version : group["versions"]) {
          EXPECT_EQ(version["freshness"], "Current");
          for (const Json& resource : version["resources"]) {
            const std::string name = group["metadata"]["name"];
            const Json& kind = resource["responseKind"];
            // A kind that Kubernetes itself has does not repeat the group and version around it.
            const bool in_full = name == "storage.berth.dev";
            EXPECT_EQ(kind["group"], in_full ? name : "") << resource;
            EXPECT_EQ(kind["version"], in_full ? version["version"] : Json("")) << resource;
            aggregated.push_back(
                fmt::format("{}/{} {} {} {}", name, version["version"].get<std::string>(),
                            resource["resource"].get<std::string>(),
                            kind["kind"].get<std::string>(), resource["scope"].get<std::string>()));
          }
        }
      }
    }
    std::vector<std::string> expected;
    for (const api::KindInfo* info : api::BuiltInKinds()) {
      expected.push_back(fmt::format("{}/{} {} {} {}", info->group, info->version, info->plural,
                                     info->kind, info->namespaced ? "Namespaced" : "Cluster"));
    }
    EXPECT_THAT(aggregated, testing::UnorderedElementsAreArray(expected));
  }
}

TEST_F(DiscoveryTest, AggregatedNamesASubresourceOfAnotherGroupInFull) {
  const auto list = GetAs("/api", kV2);
  std::map<std::string, Json> kinds;
  for (const Json& resource : list.json["items"][0]["versions"][0]["resources"]) {
    for (const Json& sub : resource.value("subresources", Json::array())) {
      kinds[fmt::format("{}/{}", resource["resource"].get<std::string>(),
                        sub["subresource"].get<std::string>())] = sub["responseKind"];
    }
  }
  EXPECT_EQ(kinds["pods/eviction"],
            Json({{"group", "policy"}, {"version", "v1"}, {"kind", "Eviction"}}));
  EXPECT_EQ(kinds["pods/exec"], Json({{"group", ""}, {"version", ""}, {"kind", "PodExecOptions"}}));
}

TEST_F(DiscoveryTest, AClientThatHasTheDocumentIsToldSo) {
  const auto first = GetAs("/apis", kV2);
  const std::string tag = HeaderOf(first, "ETag");
  EXPECT_THAT(tag, StartsWith("\""));
  EXPECT_EQ(HeaderOf(first, "Vary"), "Accept");
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/apis", "",
                              fmt::format("Accept: {}\r\nIf-None-Match: {}\r\n", kV2, tag)));
  const std::string head = connection.ReadUntil("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(head, HasSubstr(tag));
  // Nothing follows: the connection goes on.
  connection.Send(RequestText("GET", "/healthz", "", ""));
  EXPECT_EQ(ReadResponse(connection).body, "ok");
  EXPECT_EQ(GetAs("/apis", kV2, "If-None-Match: \"other\"\r\n").code, 200);
  EXPECT_NE(HeaderOf(GetAs("/api", kV2), "ETag"), tag);
}

TEST_F(DiscoveryTest, TheIndexNamesWhatThereIs) {
  const auto index = Get("/");
  ASSERT_EQ(index.code, 200);
  for (const Json& path : index.json["paths"]) {
    EXPECT_EQ(Get(path.get<std::string>()).code, 200) << path;
  }
  EXPECT_THAT(index.body, HasSubstr("/apis/storage.k8s.io/v1"));
}

TEST_F(DiscoveryTest, TellsItsVersion) {
  const auto version = Get("/version");
  EXPECT_EQ(version.json["major"], "1");
  EXPECT_THAT(version.json["gitVersion"].get<std::string>(), StartsWith("v1."));
  EXPECT_THAT(version.json["platform"].get<std::string>(), StartsWith("linux"));
}

TEST_F(DiscoveryTest, TellsOfItsHealth) {
  for (const std::string name : {"healthz", "livez", "readyz"}) {
    const auto brief = Get("/" + name);
    EXPECT_EQ(brief.code, 200);
    EXPECT_EQ(brief.body, "ok");
    EXPECT_EQ(HeaderOf(brief, "Content-Type"), "text/plain; charset=utf-8");
    EXPECT_EQ(Get("/" + name + "?verbose").body,
              fmt::format("[+]ping ok\n[+]store ok\n{} check passed\n", name));
    EXPECT_EQ(Get("/" + name + "?verbose&exclude=store&exclude=none").body,
              fmt::format("[+]ping ok\n[+]store excluded: ok\nwarn: some health checks cannot be "
                          "excluded: no matches for \"none\"\n{} check passed\n",
                          name));
    EXPECT_EQ(Get("/" + name + "/store").body, "ok");
    EXPECT_EQ(Get("/" + name + "/none").code, 404);
  }
}

TEST_F(DiscoveryTest, HeadIsTheHeadOfGet) {
  for (const std::string_view path : {"/apis", "/healthz", "/api/v1/pods"}) {
    TestConnection connection(socket());
    connection.Send(RequestText("HEAD", path, "", ""));
    const std::string head = connection.ReadUntil("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 ")) << path;
    EXPECT_THAT(head, Not(HasSubstr("Content-Length: 0\r\n"))) << path;
    connection.Send(RequestText("GET", "/healthz", "", ""));
    EXPECT_EQ(ReadResponse(connection).body, "ok") << path;
  }
}

TEST_F(DiscoveryTest, IsIndentedForPeople) {
  EXPECT_THAT(Get("/version?pretty=true").body, StartsWith("{\n  \"buildDate\": "));
  EXPECT_THAT(Get("/nope?pretty=true").body, HasSubstr("\n  \"code\": 404"));
}

}  // namespace
}  // namespace berth::apiserver
