#include "kube/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/fake_faults.h"
#include "kube/guarded_client.h"
#include "kube/http/fake_http_server.h"

namespace berth::kube {
namespace {

using api::kinds::kNode;
using api::kinds::kPersistentVolume;
using api::kinds::kPod;
using base::StatusCode;
using nlohmann::literals::operator""_json;
using std::chrono::steady_clock;
using Request = FakeHttpServer::Request;
using Wire = FakeHttpServer::Wire;

constexpr std::chrono::seconds kSoon{5};

std::unique_ptr<Client> ClientOf(const FakeHttpServer& server, HttpClientOptions options = {}) {
  Config config;
  config.socket = server.socket_path();
  auto client = NewHttpClient(config, options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

std::string StatusBody(int code, std::string_view reason, std::string_view message) {
  return base::json::Dump({{"kind", "Status"},
                           {"apiVersion", "v1"},
                           {"code", code},
                           {"reason", reason},
                           {"message", message}});
}

TEST(HttpClientTest, SendsEachCallAsKubernetesExpectsIt) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    return wire.SendAnswer(200, R"({"metadata": {"name": "x"}})");
  });
  auto client = ClientOf(server, {.user_agent = "berth-test"});
  const Json pod = R"({"metadata": {"name": "web", "namespace": "default"}})"_json;
  ASSERT_TRUE(client->Get(kPod, "default", "web").ok());
  ASSERT_TRUE(client->Create(kPod, "default", pod).ok());
  ASSERT_TRUE(client->Update(kPod, pod, "status").ok());
  ASSERT_TRUE(client->Patch(kNode, "", "n", PatchType::kMerge, R"({"a": null})"_json, "").ok());
  ASSERT_TRUE(client->Patch(kNode, "", "n", PatchType::kJson, R"([])"_json, "status").ok());
  ASSERT_TRUE(client->Patch(kNode, "", "n", PatchType::kStrategicMerge, R"({})"_json, "").ok());
  ASSERT_TRUE(client->Delete(kPod, "default", "web", {.grace_period_seconds = 0, .uid = "u"}).ok());
  ASSERT_TRUE(
      client->CreateSubresource(kPod, "default", "web", "binding", R"({"target": {}})"_json).ok());
  ASSERT_TRUE(client
                  ->List(kPod, "",
                         {.label_selector = "a in (b,c)",
                          .field_selector = "spec.nodeName=n",
                          .limit = 5,
                          .continue_token = "t"})
                  .ok());

  const auto requests = server.requests();
  std::vector<std::string> lines;
  for (const Request& request : requests) {
    lines.push_back(fmt::format("{} {} {}", request.method, request.target, request.body));
  }
  EXPECT_THAT(
      lines,
      testing::ElementsAre(
          "GET /api/v1/namespaces/default/pods/web ",
          R"(POST /api/v1/namespaces/default/pods {"metadata":{"name":"web","namespace":"default"}})",
          R"(PUT /api/v1/namespaces/default/pods/web/status {"metadata":{"name":"web","namespace":"default"}})",
          R"(PATCH /api/v1/nodes/n {"a":null})", "PATCH /api/v1/nodes/n/status []",
          "PATCH /api/v1/nodes/n {}",
          R"(DELETE /api/v1/namespaces/default/pods/web {"apiVersion":"v1","gracePeriodSeconds":0,)"
          R"("kind":"DeleteOptions","preconditions":{"uid":"u"}})",
          R"(POST /api/v1/namespaces/default/pods/web/binding {"target":{}})",
          "GET "
          "/api/v1/"
          "pods?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=spec.nodeName%3Dn&limit=5&"
          "continue=t "));
  EXPECT_TRUE(requests[0].HasHeader("user-agent: berth-test\r\n"));
  EXPECT_TRUE(requests[1].HasHeader("content-type: application/json\r\n"));
  EXPECT_TRUE(requests[3].HasHeader("content-type: application/merge-patch+json\r\n"));
  EXPECT_TRUE(requests[4].HasHeader("content-type: application/json-patch+json\r\n"));
  EXPECT_TRUE(requests[5].HasHeader("content-type: application/strategic-merge-patch+json\r\n"));
  EXPECT_EQ(server.connections(), 1) << "one connection is kept alive";
}

TEST(HttpClientTest, ListedItemsKnowTheirKind) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    return wire.SendAnswer(
        200,
        R"({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "c"},
                                "items": [{"metadata": {"name": "a"}}]})");
  });
  const auto list = ClientOf(server)->List(kPod, "", {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->resource_version, "7");
  EXPECT_EQ(list->continue_token, "c");
  ASSERT_EQ(list->items.size(), 1u);
  EXPECT_EQ(list->items[0],
            R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})"_json);
}

TEST(HttpClientTest, StatusesBecomeTheCodesOfTheContract) {
  std::atomic<int> code = 0;
  std::string reason;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(code, StatusBody(code, reason, "the server's words"));
  });
  auto client = ClientOf(server);
  const std::tuple<int, std::string, StatusCode> cases[] = {
      {400, "BadRequest", StatusCode::kInvalidArgument},
      {401, "Unauthorized", StatusCode::kUnauthenticated},
      {403, "Forbidden", StatusCode::kPermissionDenied},
      {404, "NotFound", StatusCode::kNotFound},
      {409, "AlreadyExists", StatusCode::kAlreadyExists},
      {409, "Conflict", StatusCode::kAborted},
      {410, "Expired", StatusCode::kOutOfRange},
      {413, "RequestEntityTooLarge", StatusCode::kResourceExhausted},
      {415, "UnsupportedMediaType", StatusCode::kInvalidArgument},
      {422, "Invalid", StatusCode::kInvalidArgument},
      {429, "TooManyRequests", StatusCode::kUnavailable},
      {500, "InternalError", StatusCode::kInternal},
      {503, "ServiceUnavailable", StatusCode::kUnavailable},
      {504, "Timeout", StatusCode::kUnavailable}};
  for (const auto& [http, why, expected] : cases) {
    code = http;
    reason = why;
    const Status status = client->Get(kPod, "default", "web").status();
    EXPECT_EQ(status.code(), expected) << http;
    EXPECT_EQ(base::Message(status), "the server's words");
  }
}

TEST(HttpClientTest, AnAnswerThatIsNoStatusIsQuoted) {
  FakeHttpServer server(
      [](const Request&, Wire& wire) { return wire.SendAnswer(502, "<html>\nbad gateway"); });
  const Status status = ClientOf(server)->Get(kPod, "default", "web").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(base::Message(status),
            "GET /api/v1/namespaces/default/pods/web: HTTP 502: '<html>\\x0abad gateway'");
}

TEST(HttpClientTest, GarbageInASuccessIsAnError) {
  FakeHttpServer server(
      [](const Request&, Wire& wire) { return wire.SendAnswer(200, "{\"a\": "); });
  EXPECT_EQ(ClientOf(server)->Get(kPod, "default", "web").status().code(),
            StatusCode::kUnavailable);
}

TEST(HttpClientTest, NoServerIsUnavailable) {
  std::string path;
  {
    FakeHttpServer server([](const Request&, Wire&) { return false; });
    path = server.socket_path();
  }
  Config config;
  config.socket = path;
  auto client = NewHttpClient(config);
  ASSERT_TRUE(client.ok());
  const Status status = (*client)->Get(kPod, "default", "web").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(base::Message(status).find(path), std::string_view::npos) << status;
  EXPECT_EQ(NewHttpClient(Config()).status().code(), StatusCode::kInvalidArgument);
}

TEST(HttpClientTest, AServerThatDoesNotAnswerMeetsTheDeadline) {
  FakeHttpServer server([](const Request&, Wire& wire) { return !wire.WaitForClose(); });
  auto client = ClientOf(server, {.request_timeout = std::chrono::milliseconds(100)});
  const auto began = steady_clock::now();
  EXPECT_EQ(client->Get(kPod, "default", "web").status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Create(kPod, "default", Json::object()).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_LT(steady_clock::now() - began, kSoon);
}

TEST(HttpClientTest, AConnectionThatTheServerClosedIsOpenedAnew) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.SendAnswer(200, "{}");
    return false;  // closes although the client may keep it
  });
  auto client = ClientOf(server);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->Get(kPod, "default", "web").ok());
  EXPECT_EQ(server.connections(), 3);
}

TEST(HttpClientTest, AnAnswerCutShortIsUnavailable) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":");
    return false;
  });
  EXPECT_EQ(ClientOf(server)->Get(kPod, "default", "web").status().code(),
            StatusCode::kUnavailable);
}

TEST(HttpClientTest, AFaultStopsAWriteOrLosesItsAnswer) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    return wire.SendAnswer(200, R"({"metadata": {"name": "x"}})");
  });
  auto client = ClientOf(server);
  const base::FakeFaults faults(
      "kube.patch.nodes.before=error,kube.patch.nodes.status.after=cut,"
      "kube.create.other.after=error:ABORTED@1");
  EXPECT_EQ(client->Patch(kNode, "", "n", PatchType::kMerge, Json::object(), "").status().code(),
            StatusCode::kInternal);
  EXPECT_TRUE(server.requests().empty());
  const auto lost = client->Patch(kNode, "", "n", PatchType::kMerge, Json::object(), "status");
  EXPECT_EQ(lost.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.requests().size(), 1u);
  const auto binding = client->CreateSubresource(kPod, "default", "web", "binding", Json::object());
  EXPECT_EQ(binding.status().code(), StatusCode::kAborted);
  EXPECT_TRUE(client->Patch(kPod, "default", "x", PatchType::kMerge, Json::object(), "").ok());
}

TEST(HttpClientTest, ABodyBeyondTheLimitIsRefused) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    return wire.SendAnswer(200, "{\"a\": \"" + std::string(5000, 'x') + "\"}");
  });
  auto client = ClientOf(server, {.max_body_bytes = 1000});
  EXPECT_EQ(client->Get(kPod, "default", "web").status().code(), StatusCode::kResourceExhausted);
}

TEST(HttpClientTest, WhatTheServerPutsOffIsTriedAgainAsItAsks) {
  std::atomic<int> calls = 0;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    if (++calls % 2 == 0) return wire.SendAnswer(200, "{}");
    return wire.SendAnswer(429, StatusBody(429, "TooManyRequests", "slow down"),
                           "Retry-After: 1\r\n");
  });
  auto client = ClientOf(server);
  EXPECT_TRUE(client->Get(kPod, "default", "web").ok());
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(client->Create(kPod, "default", Json::object()).ok());
  EXPECT_EQ(calls, 4);
}

TEST(HttpClientTest, AWriteThatMayHaveBeenDoneIsNotTriedAgain) {
  std::atomic<int> calls = 0;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    ++calls;
    return wire.SendAnswer(503, StatusBody(503, "ServiceUnavailable", "later"),
                           "Retry-After: 1\r\n");
  });
  EXPECT_EQ(ClientOf(server)->Create(kPod, "default", Json::object()).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(calls, 1);
}

TEST(HttpClientTest, AWriteThatTheServerPutOffIsNotSentOnceItsGuardSaysNo) {
  std::atomic<bool> leading = true;
  std::atomic<int> calls = 0;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    ++calls;
    leading = false;
    return wire.SendAnswer(429, StatusBody(429, "TooManyRequests", "slow down"),
                           "Retry-After: 1\r\n");
  });
  auto client = ClientOf(server);
  GuardedClient guarded(*client, GuardedClient::MakeLeaderGate([&] { return leading.load(); }),
                        std::chrono::seconds(5));
  const Status status = guarded.Create(kPod, "default", Json::object()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(status), testing::HasSubstr("not the leader any more"));
  EXPECT_EQ(calls, 1);
}

TEST(HttpClientTest, AWriteIsWaitedForAsLongAsItsGuardSays) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.WaitForClose();
    return false;
  });
  auto client = ClientOf(server);
  GuardedClient guarded(*client, GuardedClient::MakeLeaderGate([] { return true; }),
                        std::chrono::milliseconds(50));
  EXPECT_EQ(guarded.Create(kPod, "default", Json::object()).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST(HttpClientTest, RequestsASecondAreLimitedWhenAskedFor) {
  FakeHttpServer server([](const Request&, Wire& wire) { return wire.SendAnswer(200, "{}"); });
  auto client = ClientOf(
      server, {.request_timeout = std::chrono::seconds(5), .queries_per_second = 0.01, .burst = 3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->Get(kPod, "default", "web").ok());
  EXPECT_EQ(client->Get(kPod, "default", "web").status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(HttpClientTest, ARetryThatComesTooLateIsNotWaitedFor) {
  FakeHttpServer server([&](const Request&, Wire& wire) {
    return wire.SendAnswer(503, StatusBody(503, "ServiceUnavailable", "later"),
                           "Retry-After: 3600\r\n");
  });
  EXPECT_EQ(ClientOf(server)->Get(kPod, "default", "web").status().code(),
            StatusCode::kUnavailable);
}

TEST(HttpClientTest, RefusesNamesThatWouldChangeTheUrl) {
  FakeHttpServer server([](const Request&, Wire& wire) { return wire.SendAnswer(200, "{}"); });
  auto client = ClientOf(server);
  EXPECT_EQ(client->Get(kPod, "default", "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Get(kPod, "default", "..").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Get(kPod, "default", "a/b").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Delete(kPod, "", "web", {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Get(kNode, "default", "n").status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClientTest, ManyThreadsShareTheConnections) {
  FakeHttpServer server([](const Request&, Wire& wire) { return wire.SendAnswer(200, "{}"); });
  auto client = ClientOf(server, {.max_in_flight = 4});
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 20; ++j) good += client->Get(kPod, "default", "web").ok() ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(good, 320);
  EXPECT_LE(server.connections(), 4);
}

TEST(HttpClientWatchTest, DeliversEventsAcrossChunks) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(R"({"type": "ADDED", "object": {"metadata": {"name": "a"}}})");
    wire.SendChunk("\n\n{\"type\": \"MODI");
    wire.SendChunk(
        "FIED\", \"object\": {\"metadata\": {\"name\": \"b\"}}}\n{\"type\": \"DELETED\", "
        "\"object\": {}}\n");
    wire.SendChunk(
        "{\"type\": \"BOOKMARK\", \"object\": {\"metadata\": {\"resourceVersion\": \"9\"}}}\n");
    return wire.EndChunks();
  });
  std::vector<std::string> seen;
  const Status status = ClientOf(server)->Watch(
      kPersistentVolume, "", {.resource_version = "5", .timeout = std::chrono::seconds(30)}, {},
      [&](const WatchEvent& event) {
        seen.push_back(
            fmt::format("{} {}", static_cast<int>(event.type), base::json::Dump(event.object)));
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(
      seen,
      testing::ElementsAre(
          R"(0 {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"}})",
          R"(1 {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"b"}})",
          R"(2 {"apiVersion":"v1","kind":"PersistentVolume"})",
          R"(3 {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"resourceVersion":"9"}})"));
  EXPECT_EQ(
      server.requests().at(0).target,
      "/api/v1/"
      "persistentvolumes?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=30");
}

TEST(HttpClientWatchTest, StopEndsAQuietWatchAtOnce) {
  std::promise<void> open;
  std::promise<bool> closed;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    wire.BeginChunks();
    open.set_value();
    closed.set_value(wire.WaitForClose());
    return false;
  });
  auto client = ClientOf(server);
  std::stop_source stop;
  auto watch = std::async(std::launch::async, [&] {
    return client->Watch(kPod, "", {}, stop.get_token(), [](const WatchEvent&) { return true; });
  });
  open.get_future().wait();
  const auto began = steady_clock::now();
  stop.request_stop();
  EXPECT_EQ(watch.get().code(), StatusCode::kCancelled);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(1));
  EXPECT_TRUE(closed.get_future().get()) << "the connection is closed";
}

TEST(HttpClientWatchTest, AStopBeforeTheAnswerWorksToo) {
  FakeHttpServer server([](const Request&, Wire& wire) { return !wire.WaitForClose(); });
  auto client = ClientOf(server);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      client->Watch(kPod, "", {}, stop.get_token(), [](const WatchEvent&) { return true; }).code(),
      StatusCode::kCancelled);
}

TEST(HttpClientWatchTest, TheCallersNoEndsIt) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(
        "{\"type\": \"ADDED\", \"object\": {}}\n{\"type\": \"ADDED\", \"object\": {}}\n");
    return !wire.WaitForClose();
  });
  int seen = 0;
  EXPECT_TRUE(ClientOf(server)
                  ->Watch(kPod, "", {}, {}, [&](const WatchEvent&) { return ++seen < 1; })
                  .ok());
  EXPECT_EQ(seen, 1);
}

TEST(HttpClientWatchTest, TooOldIsOutOfRangeInBothForms) {
  std::atomic<bool> as_event = false;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    const std::string status = StatusBody(410, "Expired", "too old resource version");
    if (!as_event) return wire.SendAnswer(410, status);
    wire.BeginChunks();
    wire.SendChunk("{\"type\": \"ERROR\", \"object\": " + status + "}\n");
    return !wire.WaitForClose();
  });
  auto client = ClientOf(server);
  for (int i = 0; i < 2; ++i, as_event = true) {
    const Status status = client->Watch(kPod, "", {}, {}, [](const WatchEvent&) { return true; });
    EXPECT_EQ(status.code(), StatusCode::kOutOfRange) << status;
    EXPECT_EQ(base::Message(status), "too old resource version");
  }
}

TEST(HttpClientWatchTest, ABrokenWatchIsUnavailable) {
  FakeHttpServer server([](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk("{\"type\": \"ADDED\", \"object\": {}}\n{\"type\":");
    return false;
  });
  int seen = 0;
  const Status status =
      ClientOf(server)->Watch(kPod, "", {}, {}, [&](const WatchEvent&) { return ++seen > 0; });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_EQ(seen, 1);
}

TEST(HttpClientWatchTest, GarbageAndEndlessLinesBreakIt) {
  std::atomic<bool> endless = false;
  FakeHttpServer server([&](const Request&, Wire& wire) {
    wire.BeginChunks();
    wire.SendChunk(endless ? std::string(3000, 'x') : "not json\n");
    return !wire.WaitForClose();
  });
  auto client = ClientOf(server, {.max_event_bytes = 1000});
  EXPECT_EQ(client->Watch(kPod, "", {}, {}, [](const WatchEvent&) { return true; }).code(),
            StatusCode::kUnavailable);
  endless = true;
  EXPECT_EQ(client->Watch(kPod, "", {}, {}, [](const WatchEvent&) { return true; }).code(),
            StatusCode::kResourceExhausted);
}

TEST(HttpClientWatchTest, AServerThatNeverAnswersMeetsTheDeadline) {
  FakeHttpServer server([](const Request&, Wire& wire) { return !wire.WaitForClose(); });
  auto client = ClientOf(server, {.request_timeout = std::chrono::milliseconds(100)});
  EXPECT_EQ(client->Watch(kPod, "", {}, {}, [](const WatchEvent&) { return true; }).code(),
            StatusCode::kDeadlineExceeded);
}

TEST(HttpClientStreamTest, HandsOnWhatComes) {
  FakeHttpServer server([](const Request& request, Wire& wire) {
    if (request.target != "/api/v1/namespaces/default/pods/web/log?follow=true") {
      return wire.SendAnswer(404, StatusBody(404, "NotFound", "pods \"web\" not found"));
    }
    wire.BeginChunks();
    wire.SendChunk("one\n");
    wire.SendChunk("two\n");
    return wire.EndChunks();
  });
  auto client = ClientOf(server);
  std::string text;
  const auto append = [&](std::string_view chunk) {
    text += chunk;
    return true;
  };
  EXPECT_TRUE(
      client->GetStream("/api/v1/namespaces/default/pods/web/log?follow=true", "*/*", {}, append)
          .ok());
  EXPECT_EQ(text, "one\ntwo\n");
  const Status missing =
      client->GetStream("/api/v1/namespaces/default/pods/web/log", "*/*", {}, append);
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(base::Message(missing), "pods \"web\" not found");
}

}  // namespace
}  // namespace berth::kube
