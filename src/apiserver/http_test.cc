// Bad clients and bad bytes: each is answered or dropped, and the server serves on.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class HttpTest : public ApiTest {
 protected:
  std::string Raw(std::string_view bytes) {
    TestConnection connection(socket());
    connection.Send(bytes);
    return connection.ReadToEnd();
  }
  void TearDown() override {
    EXPECT_EQ(Get("/healthz").body, "ok");
    ApiTest::TearDown();
  }
};

TEST_F(HttpTest, GarbageIsABadRequest) {
  EXPECT_THAT(Raw("\x16\x03\x01 no http\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Raw("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_THAT(Raw("GET /healthz HTTP/1.1\r\nContent-Length: x\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpTest, AnOversizedBodyIsRefusedWithAStatus) {
  const std::string body(3 * 1024 * 1024 + 1, ' ');
  const auto refused = Call("POST", kConfigMaps, body);
  EXPECT_EQ(refused.code, 413);
  EXPECT_EQ(refused.reason(), "RequestEntityTooLarge");
  // The same in chunks, whose total nobody announced.
  std::string chunked =
      fmt::format("POST {} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n", kConfigMaps);
  for (int i = 0; i < 49; ++i)
    chunked += fmt::format("{:x}\r\n{}\r\n", 65536, std::string(65536, ' '));
  chunked += "0\r\n\r\n";
  EXPECT_THAT(Raw(chunked), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpTest, ABodyJustWithinTheLimitIsTaken) {
  std::string body = R"({"metadata":{"name":"a"}})";
  body += std::string(3 * 1024 * 1024 - body.size(), ' ');
  EXPECT_EQ(Call("POST", kConfigMaps, body).code, 201);
}

TEST_F(HttpTest, AnOversizedHeadIsRefused) {
  EXPECT_THAT(Raw(fmt::format("GET /healthz HTTP/1.1\r\nX: {}\r\n\r\n", std::string(70'000, 'x'))),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpTest, HalfARequestThenTheEndIsDropped) {
  for (const std::string_view half :
       {"", "GET /heal",
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"}) {
    TestConnection connection(socket());
    connection.Send(half);
    connection.ShutdownWrite();
    EXPECT_EQ(connection.ReadToEnd(), "") << half;
  }
}

TEST_F(HttpTest, AnswersAfterTheClientsFin) {
  TestConnection connection(socket());
  connection.Send(RequestText("GET", kConfigMaps, "", ""));
  connection.ShutdownWrite();
  EXPECT_EQ(ReadResponse(connection).code, 200);
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  TestConnection connection(socket());
  std::string bytes;
  for (int i = 0; i < 20; ++i) {
    bytes += RequestText("POST", kConfigMaps, base::json::Dump(ConfigMap(fmt::format("c{}", i))),
                         "Content-Type: application/json\r\n");
  }
  connection.Send(bytes);
  for (int i = 0; i < 20; ++i) {
    const auto response = ReadResponse(connection);
    ASSERT_EQ(response.code, 201);
    EXPECT_EQ(response.json["metadata"]["name"], fmt::format("c{}", i));
  }
}

TEST_F(HttpTest, ABodyThatTricklesInIsWhole) {
  TestConnection connection(socket());
  const std::string request = RequestText("POST", kConfigMaps, base::json::Dump(ConfigMap("a")),
                                          "Content-Type: application/json\r\n");
  for (const char c : request) connection.Send(std::string_view(&c, 1));
  EXPECT_EQ(ReadResponse(connection).code, 201);
}

TEST_F(HttpTest, ExpectContinueIsAnswered) {
  TestConnection connection(socket());
  const std::string body = base::json::Dump(ConfigMap("a"));
  connection.Send(
      fmt::format("POST {} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                  "Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                  kConfigMaps, body.size()));
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  connection.Send(body);
  EXPECT_EQ(ReadResponse(connection).code, 201);
}

TEST_F(HttpTest, ConnectionCloseIsHonoured) {
  const std::string answer = Raw("GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nok"));
}

struct BadCall {
  std::string_view method;
  std::string_view target;
  std::string_view body;
  int code;
  std::string_view text;
};

TEST_F(HttpTest, RefusesWhatIsNotServed) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const BadCall cases[] = {
      {"GET", "/nope", "", 404, "the server could not find the requested resource"},
      {"GET", "/api/v1/unicorns", "", 404, "could not find"},
      {"GET", "/apis/storage.k8s.io/v9/storageclasses", "", 404, "could not find"},
      {"GET", "/apis/batch/v1", "", 404, "could not find"},
      {"GET", "/api/v1/pods/a", "", 404, "could not find"},
      {"GET", "/api/v1/namespaces/default/nodes", "", 404, "could not find"},
      {"GET", "/api/v1/namespaces/default/configmaps/a/b/c", "", 404, "could not find"},
      {"GET", "/api/v1/namespaces/default/configmaps/a/status", "", 404, "could not find"},
      {"GET", "/api/v1/namespaces/default/configmaps/..%2Fx", "", 400, "invalid name"},
      {"GET", "/api/v1/namespaces/default/configmaps/%", "", 400, "percent escape"},
      {"GET", "/api/v1/namespaces/default/configmaps/a%00b", "", 400, "percent escape"},
      {"POST", "/api/v1/configmaps", "{}", 405, "does not allow this method"},
      {"POST", "/api/v1/namespaces/default/configmaps/a", "{}", 405, "does not allow this method"},
      {"PUT", "/api/v1/namespaces/default/configmaps", "{}", 405, "does not allow this method"},
      {"BREW", "/api/v1/namespaces/default/configmaps", "", 405, "does not allow this method"},
      {"POST", kConfigMaps, "{", 400, "malformed JSON"},
      {"POST", kConfigMaps, "", 400, "malformed JSON"},
      {"POST", kConfigMaps, "[]", 400, "not a JSON object"},
      {"POST", kConfigMaps, deep, 400, "deeper"},
      {"POST", kConfigMaps, R"({"kind":"Pod","apiVersion":"v1"})", 400,
       "cannot be handled as a ConfigMap"},
      {"POST", kConfigMaps, R"({"metadata":[]})", 400, "metadata of type v1.ObjectMeta"},
      {"POST", kConfigMaps, R"({"metadata":{"name":"a","namespace":"other"}})", 400,
       "does not match the namespace"},
      {"POST", "/api/v1/namespaces/default/pods/a/binding", "{}", 422,
       "target.name: Required value"},
      {"DELETE", "/api/v1/namespaces/default/configmaps/a", R"({"propagationPolicy":"Never"})", 422,
       "propagationPolicy: Unsupported value"},
      {"DELETE", "/api/v1/namespaces/default/configmaps/a", R"({"gracePeriodSeconds":"soon"})", 400,
       "DeleteOptions.gracePeriodSeconds of type int64"},
  };
  for (const BadCall& bad : cases) {
    const auto refused = Call(bad.method, bad.target, bad.body);
    EXPECT_EQ(refused.code, bad.code) << bad.method << bad.target << bad.body << refused.body;
    EXPECT_EQ(refused.json["kind"], "Status") << bad.target;
    EXPECT_EQ(refused.json["status"], "Failure") << bad.target;
    EXPECT_EQ(refused.json["code"], bad.code) << bad.target;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text)) << bad.target;
  }
  const auto xml = Call("POST", kConfigMaps, "<a/>", "Content-Type: text/xml\r\n");
  EXPECT_EQ(xml.code, 415);
  EXPECT_EQ(xml.reason(), "UnsupportedMediaType");
  EXPECT_EQ(Call("POST", kConfigMaps, "a: [", "Content-Type: application/yaml\r\n").code, 400);
}

TEST_F(HttpTest, ManyClientsAtOnceAreAllServed) {
  constexpr int kClients = 64;
  constexpr int kEach = 10;
  std::vector<std::jthread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([this, c] {
      TestConnection connection(socket());
      for (int i = 0; i < kEach; ++i) {
        connection.Send(RequestText("POST", kConfigMaps,
                                    base::json::Dump(ConfigMap(fmt::format("c{}-{}", c, i))),
                                    "Content-Type: application/json\r\n"));
        EXPECT_EQ(ReadResponse(connection).code, 201);
      }
    });
  }
  clients.clear();
  EXPECT_EQ(Get(kConfigMaps).json["items"].size(), size_t{kClients * kEach});
}

TEST_F(HttpTest, ClientsThatVanishInMidRequestLeaveNothingBehind) {
  for (int i = 0; i < 50; ++i) {
    TestConnection watch(socket());
    watch.Send(RequestText("GET", fmt::format("{}?watch=true", kConfigMaps), "", ""));
    TestConnection half(socket());
    half.Send(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nContent-Length: 999\r\n\r\n{");
  }
  EXPECT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
}

TEST_F(HttpTest, ALyingContentLengthHarmsOnlyItsClient) {
  const std::string line = fmt::format("POST {} HTTP/1.1\r\nHost: t\r\n", kConfigMaps);
  const auto with = [&](std::string_view headers, std::string_view body) {
    TestConnection connection(socket());
    connection.Send(fmt::format("{}{}\r\n\r\n{}", line, headers, body));
    connection.ShutdownWrite();
    return connection.ReadToEnd();
  };
  EXPECT_THAT(with("Content-Length: 99999999999", "{}"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(with("Content-Length: -1", "{}"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(with("Content-Length: 2\r\nContent-Length: 3", "{}x"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(with("Content-Length: 18446744073709551617", "{}"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(with("Content-Length: 2\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(with("Content-Length: 1000", "{}"), "");
  // What follows a body that is longer than it said is no request.
  TestConnection connection(socket());
  connection.Send(line + "Content-Length: 2\r\n\r\n{}garbage\r\n\r\n");
  EXPECT_EQ(ReadResponse(connection).code, 422);
  EXPECT_THAT(ReadResponse(connection).message(), HasSubstr("malformed HTTP request"));
  EXPECT_EQ(connection.ReadToEnd(), "");
}

TEST_F(HttpTest, WhatChunksSayBesidesIsBounded) {
  const std::string head =
      fmt::format("POST {} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n", kConfigMaps);
  EXPECT_THAT(Raw(head + "2;" + std::string(200'000, 'x')), StartsWith("HTTP/1.1 431 "));
  std::string trailers = head + "2\r\n{}\r\n0\r\n";
  for (int i = 0; i < 20'000; ++i) trailers += fmt::format("X-{}: y\r\n", i);
  EXPECT_THAT(Raw(trailers), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Raw(head + "fffffffffffffffff\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Raw(head + "zz\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpTest, AChunkedBodyIsWhole) {
  TestConnection connection(socket());
  std::string bytes = fmt::format(
      "POST {} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n",
      kConfigMaps);
  for (const char c : base::json::Dump(ConfigMap("a"))) bytes += fmt::format("1;x=y\r\n{}\r\n", c);
  connection.Send(bytes + "0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(ReadResponse(connection).code, 201);
}

TEST_F(HttpTest, BytesThatAreNoTextAreRefusedInText) {
  const auto body = Call("POST", kConfigMaps, "{\"metadata\":{\"name\":\"a\xff\"}}");
  EXPECT_EQ(body.code, 400);
  EXPECT_FALSE(body.message().empty());
  const auto value =
      Call("POST", kConfigMaps, "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xc3\x28\"}}");
  EXPECT_EQ(value.code, 400);
  const auto yaml = Call("POST", kConfigMaps, "metadata:\n  name: \"a\xff\"\n",
                         "Content-Type: application/yaml\r\n");
  EXPECT_GE(yaml.code, 400);
  EXPECT_LT(yaml.code, 500);
  for (const char* path :
       {"/api/v1/namespaces/default/configmaps/%ff", "/%ff",
        "/api/v1/configmaps?labelSelector=%ff%3D%fe", "/api/v1/configmaps?fieldSelector=%ff",
        "/api/v1/pods?continue=%ff", "/api/v1/configmaps?resourceVersion=%00"}) {
    const auto refused = Get(path);
    EXPECT_GE(refused.code, 400) << path;
    EXPECT_LT(refused.code, 500) << path;
    EXPECT_EQ(refused.json["kind"], "Status") << path << refused.body;
  }
}

TEST_F(HttpTest, DeepAndSwellingBodiesAreRefused) {
  const std::string levels(100'000, '[');
  EXPECT_EQ(Call("POST", kConfigMaps, levels).code, 400);
  std::string objects;
  for (int i = 0; i < 10'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(Call("POST", kConfigMaps, objects).code, 400);
  constexpr std::string_view kYaml = "Content-Type: application/yaml\r\n";
  EXPECT_EQ(Call("POST", kConfigMaps, levels, kYaml).code, 400);
  std::string indented;
  for (int i = 0; i < 1000; ++i) indented += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(Call("POST", kConfigMaps, indented, kYaml).code, 400);
  // Nine aliases of nine aliases of nine ...
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 9; ++j) bomb += fmt::format("{}*a{}", j > 0 ? "," : "", i - 1);
    bomb += "]\n";
  }
  const auto swollen = Call("POST", kConfigMaps, bomb, kYaml);
  EXPECT_EQ(swollen.code, 400);
  EXPECT_EQ(
      Call("PATCH", At(kConfigMaps, "a"), bomb, "Content-Type: application/apply-patch+yaml\r\n")
              .code /
          100,
      4);
}

TEST_F(HttpTest, SelectorsAndQueriesOfAbsurdLengthAreAnswered) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  const std::string maps(kConfigMaps);
  std::string labels;
  for (int i = 0; i < 6000; ++i) labels += fmt::format("!a{},", i);
  labels.pop_back();
  EXPECT_EQ(Get(maps + "?labelSelector=" + labels).json["items"].size(), 1u);
  std::string fields = "metadata.name%3Da";
  for (int i = 0; i < 2000; ++i) fields += ",metadata.name!%3Db";
  EXPECT_EQ(Get(maps + "?fieldSelector=" + fields).json["items"].size(), 1u);
  EXPECT_EQ(Get(maps + "?labelSelector=" + std::string(60'000, '(')).code, 400);
  EXPECT_EQ(Get(maps + "?continue=" + std::string(60'000, 'A')).code, 400);
  EXPECT_EQ(Get(maps + "?limit=" + std::string(60'000, '9')).code, 400);
  std::string parameters = maps + "?";
  for (int i = 0; i < 1000; ++i) parameters += fmt::format("p{}=x&", i);
  EXPECT_EQ(Get(parameters).code, 400);
  EXPECT_EQ(Get(maps + "?labelSelector=" + std::string(70'000, 'a')).code, 431);
  EXPECT_GE(Get("/api/v1/namespaces/" + std::string(60'000, 'a') + "/pods").code, 200);
}

TEST_F(HttpTest, AbsurdHeadersAreAnswered) {
  std::string accept = "Accept: ";
  for (int i = 0; i < 5000; ++i) accept += "a/b;q=0.1,";
  EXPECT_EQ(Call("GET", kConfigMaps, "", accept + "*/*\r\n").code, 406);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += fmt::format("X-{}: y\r\n", i);
  EXPECT_EQ(Call("GET", kConfigMaps, "", many).code, 200);
  EXPECT_EQ(Call("GET", kConfigMaps, "", "Accept: \x01\xff;;;=,/\r\n").code, 400);
  EXPECT_EQ(Call("GET", kConfigMaps, "", "Accept: ;;;=,/\r\n").code, 406);
}

}  // namespace
}  // namespace berth::apiserver
