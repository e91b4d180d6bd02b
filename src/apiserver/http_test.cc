// Bad clients and bad bytes: each is answered or dropped, and the server serves on.

#include "apiserver/test_client.h"

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

}  // namespace
}  // namespace berth::apiserver
