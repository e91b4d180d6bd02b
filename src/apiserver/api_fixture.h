// For tests: a real server on a real store in a temporary folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <sstream>
#include <string>

#include "api/kind_info.h"
#include "apiserver/access/certificates.h"
#include "apiserver/server.h"
#include "base/json.h"
#include "http/client_fixture.h"

namespace berth::apiserver {

using base::Json;

using http::ReadResponse;
using http::RequestText;
using http::TestConnection;
using http::TestResponse;

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

// Objects and where they are.

inline constexpr std::string_view kConfigMaps = "/api/v1/namespaces/default/configmaps";
inline constexpr std::string_view kAttachments = "/apis/storage.k8s.io/v1/volumeattachments";
inline constexpr std::string_view kLeases =
    "/apis/coordination.k8s.io/v1/namespaces/default/leases";
inline constexpr std::string_view kRuntimes = "/apis/node.k8s.io/v1/runtimeclasses";
inline constexpr std::string_view kPods = "/api/v1/namespaces/default/pods";
inline constexpr std::string_view kClaims = "/api/v1/namespaces/default/persistentvolumeclaims";

inline std::string At(std::string_view collection, std::string_view name) {
  return fmt::format("{}/{}", collection, name);
}

inline Json ParseJson(std::string_view text) { return base::json::Parse(text).value(); }

inline Json ConfigMap(std::string_view name, const Json& data = Json::object()) {
  return {{"metadata", {{"name", std::string(name)}}}, {"data", data}};
}

inline Json PodNamed(std::string_view name) {
  return {{"metadata", {{"name", std::string(name)}}},
          {"spec", {{"containers", Json::array({{{"name", "main"}, {"image", "busybox:1.36"}}})}}}};
}

inline Json ClaimNamed(std::string_view name, std::string_view size = "1Gi") {
  return {{"metadata", {{"name", std::string(name)}}},
          {"spec",
           {{"accessModes", Json::array({"ReadWriteOnce"})},
            {"resources", {{"requests", {{"storage", std::string(size)}}}}}}}};
}

inline constexpr std::string_view kTable =
    "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n";

inline std::vector<std::string> Names(const Json& list) {
  std::vector<std::string> names;
  for (const Json& item : list["items"]) names.push_back(item["metadata"]["name"]);
  return names;
}

class ApiTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-api-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    StartServer();
  }
  void TearDown() override {
    server_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void StartServer() {
    auto store = store::Store::Open({.path = folder_ + "/store.db"});
    ASSERT_TRUE(store.ok()) << base::ToString(store.status());
    store_ = *std::move(store);
    std::filesystem::create_directory(folder_ + "/nodes");
    // Real clients check them by the real time.
    ASSERT_TRUE(EnsureCertificates({.folder = folder_ + "/pki", .listen_address = "127.0.0.1"},
                                   base::SystemClock().Now())
                    .ok());
    auto server = Server::Start(*store_, clock_,
                                {.unix_socket = socket(),
                                 .port = 0,
                                 .certificate_folder = folder_ + "/pki",
                                 .kubeconfig = folder_ + "/kubeconfig",
                                 .node_sockets = folder_ + "/nodes",
                                 .token_file = folder_ + "/tokens.json"});
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }

  std::string socket() const { return folder_ + "/api.sock"; }

  TestResponse Call(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view headers = "Content-Type: application/json\r\n") {
    TestConnection connection(socket());
    connection.Send(RequestText(method, target, body, headers));
    return ReadResponse(connection);
  }
  // Objects c0000, c0001, ... written straight into the store: a thousand HTTP requests prove
  // nothing more.
  void Fill(int count, size_t size) {
    const std::string text(size, 'x');
    std::vector<std::future<bool>> written;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("c{:04}", i);
      auto done = std::make_shared<std::promise<bool>>();
      written.push_back(done->get_future());
      store_->ApplyAsync(
          {.key = "/configmaps/default/" + name,
           .value = fmt::format(R"({{"apiVersion":"v1","kind":"ConfigMap","metadata":)"
                                R"({{"name":"{}","namespace":"default"}},"data":{{"k":"{}"}}}})",
                                name, text)},
          [done](const auto& result) { done->set_value(result.ok()); },
          store::Store::CommitOn::kWriterThread);
    }
    for (auto& one : written) ASSERT_TRUE(one.get());
  }

  TestResponse Get(std::string_view target) { return Call("GET", target); }
  TestResponse Post(std::string_view target, const Json& body) {
    return Call("POST", target, base::json::Dump(body));
  }
  TestResponse Put(std::string_view target, const Json& body) {
    return Call("PUT", target, base::json::Dump(body));
  }
  TestResponse Delete(std::string_view target, const Json& options = nullptr) {
    return Call("DELETE", target, options.is_null() ? "" : base::json::Dump(options));
  }
  TestResponse Patch(std::string_view target, const Json& patch,
                     std::string_view type = "merge-patch+json") {
    return Call("PATCH", target, base::json::Dump(patch),
                fmt::format("Content-Type: application/{}\r\n", type));
  }

  void CreateMany(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(Post(kConfigMaps, ConfigMap(fmt::format("c{:04}", i))).code, 201);
    }
  }

  std::string folder_;
  base::FakeClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Server> server_;
};

}  // namespace berth::apiserver
