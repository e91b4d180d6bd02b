// Who gets in and by what: certificates, the kubeconfig, the socket's mode, tokens; logs and exec.

#include <sys/stat.h>

#include <fstream>

#include "apiserver/access/authorization.h"
#include "apiserver/access/certificates.h"
#include "apiserver/api_fixture.h"
#include "apiserver/formats/kube_status.h"
#include "base/base64.h"
#include "kube/config.h"
#include "kube/http/http_client.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

CertificateOptions At127(const std::string& folder) {
  return {.folder = folder, .listen_address = "127.0.0.1"};
}

TEST_F(ApiTest, FilesAreRootsAlone) {
  EXPECT_EQ(ModeOf(socket()), 0600u);
  EXPECT_EQ(ModeOf(folder_ + "/kubeconfig"), 0600u);
  EXPECT_EQ(ModeOf(folder_ + "/pki"), 0700u);
  for (const char* name : {"ca.key", "server.key", "admin.key", "sa.key"}) {
    EXPECT_EQ(ModeOf(fmt::format("{}/pki/{}", folder_, name)), 0600u) << name;
  }
}

TEST_F(ApiTest, AKubeconfigThatHasNotChangedIsNotWrittenAndClosedToOthers) {
  const std::string path = folder_ + "/same";
  const KubeconfigUser user{.name = "u", .certificate = "c", .key = "k"};
  const auto inode = [&] {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_ino;
  };
  ASSERT_TRUE(WriteKubeconfig(path, "https://127.0.0.1:1", "ca", user).ok());
  const ino_t first = inode();
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  ASSERT_TRUE(WriteKubeconfig(path, "https://127.0.0.1:1", "ca", user).ok());
  EXPECT_EQ(inode(), first);
  EXPECT_EQ(ModeOf(path), 0600u);
  ASSERT_TRUE(WriteKubeconfig(path, "https://127.0.0.1:2", "ca", user).ok());
  EXPECT_NE(inode(), first);
}

TEST_F(ApiTest, WhatACrashLeftOfAKubeconfigGoesWithItsNextWrite) {
  const std::string torn = folder_ + "/.cut.tmp-Ab12Cd";
  std::ofstream(torn) << "a key";
  ASSERT_TRUE(WriteKubeconfig(folder_ + "/cut", "https://127.0.0.1:1", "ca",
                              {.name = "u", .certificate = "c", .key = "k"})
                  .ok());
  EXPECT_FALSE(std::filesystem::exists(torn));
}

TEST_F(ApiTest, TheKubeconfigWorksOverTls) {
  auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig");
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  EXPECT_EQ(config->server, fmt::format("https://127.0.0.1:{}", server_->port()));
  auto client = kube::NewHttpClient(*config);
  ASSERT_TRUE(client.ok());
  const auto created = (*client)->Create(api::kinds::kConfigMap, "default", ConfigMap("a"));
  ASSERT_TRUE(created.ok()) << base::ToString(created.status());
  EXPECT_TRUE((*client)->Get(api::kinds::kConfigMap, "default", "a").ok());
  EXPECT_EQ((*client)->Create(api::kinds::kConfigMap, "default", ConfigMap("a")).status().code(),
            base::StatusCode::kAlreadyExists);
}

TEST_F(ApiTest, TlsWithoutOurCertificateIsRefused) {
  auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig");
  ASSERT_TRUE(config.ok());
  auto anonymous = *config;
  anonymous.client_certificate.clear();
  anonymous.client_key.clear();
  // A certificate of another authority with the right names.
  const auto foreign = EnsureCertificates(At127(folder_ + "/other-pki"), base::SystemClock().Now());
  ASSERT_TRUE(foreign.ok());
  auto forged = *config;
  forged.client_certificate = foreign->admin_certificate;
  forged.client_key = foreign->admin_key;
  for (const auto& bad : {anonymous, forged}) {
    auto client = kube::NewHttpClient(bad);
    ASSERT_TRUE(client.ok());
    EXPECT_EQ((*client)->Get(api::kinds::kNamespace, "", "default").status().code(),
              base::StatusCode::kUnauthenticated);
  }
}

TEST_F(ApiTest, CertificatesAreKeptAndRenewedBeforeTheyEnd) {
  const std::string folder = folder_ + "/certs";
  const auto now = base::SystemClock().Now();
  const auto first = EnsureCertificates(At127(folder), now);
  ASSERT_TRUE(first.ok()) << base::ToString(first.status());
  EXPECT_TRUE(first->renewed);
  const auto same = EnsureCertificates(At127(folder), now + std::chrono::hours(24 * 300));
  ASSERT_TRUE(same.ok());
  EXPECT_FALSE(same->renewed);
  EXPECT_EQ(same->server_certificate, first->server_certificate);
  const auto later = EnsureCertificates(At127(folder), now + std::chrono::hours(24 * 310));
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE(later->renewed);
  EXPECT_EQ(later->ca_certificate, first->ca_certificate);
  EXPECT_NE(later->server_certificate, first->server_certificate);
  EXPECT_NE(later->admin_certificate, first->admin_certificate);
}

TEST_F(ApiTest, AKeyThatCannotBeReadIsNotReplaced) {
  const std::string folder = folder_ + "/certs";
  const auto now = base::SystemClock().Now();
  const auto first = EnsureCertificates(At127(folder), now);
  ASSERT_TRUE(first.ok()) << base::ToString(first.status());
  for (const std::string name : {"ca.key", "ca.crt", "sa.key"}) {
    // A symlink is not followed, so the read fails although nothing is missing or damaged.
    const std::string path = folder + "/" + name;
    std::filesystem::rename(path, path + ".moved");
    std::filesystem::create_symlink(path + ".moved", path);
    const auto refused = EnsureCertificates(At127(folder), now);
    EXPECT_THAT(base::Message(refused.status()), HasSubstr(name));
    EXPECT_TRUE(std::filesystem::is_symlink(path)) << name;
    std::filesystem::rename(path + ".moved", path);
  }
  const auto same = EnsureCertificates(At127(folder), now);
  ASSERT_TRUE(same.ok()) << base::ToString(same.status());
  EXPECT_FALSE(same->renewed);
  EXPECT_EQ(same->ca_certificate, first->ca_certificate);
  EXPECT_EQ(same->token_key, first->token_key);
}

TEST_F(ApiTest, CertificatesFollowTheirNames) {
  const auto now = base::SystemClock().Now();
  CertificateOptions options{
      .folder = folder_ + "/certs", .listen_address = "127.0.0.1", .node_name = "n1"};
  const auto first = EnsureCertificates(options, now);
  ASSERT_TRUE(first.ok()) << base::ToString(first.status());
  EXPECT_THAT(first->node_certificate, StartsWith("-----BEGIN CERTIFICATE-----"));
  EXPECT_FALSE(EnsureCertificates(options, now)->renewed);
  options.node_name = "n2";
  const auto renamed = EnsureCertificates(options, now);
  EXPECT_NE(renamed->node_certificate, first->node_certificate);
  EXPECT_EQ(renamed->server_certificate, first->server_certificate);
  options.listen_address = "fd00::17";
  const auto moved = EnsureCertificates(options, now);
  EXPECT_NE(moved->server_certificate, first->server_certificate);
  EXPECT_EQ(moved->node_certificate, renamed->node_certificate);
  EXPECT_FALSE(EnsureCertificates(options, now)->renewed);
}

TEST_F(ApiTest, ARunningServerRenewsItsCertificatesAndKubeconfigs) {
  const auto read = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string folder = folder_ + "/long";
  std::filesystem::create_directory(folder);
  auto store = store::Store::Open({.path = folder + "/store.db"}).value();
  const auto server = Server::Start(*store, clock_,
                                    {.unix_socket = folder + "/api.sock",
                                     .port = 0,
                                     .certificate_folder = folder + "/pki",
                                     .kubeconfig = folder + "/kubeconfig",
                                     .node_sockets = folder,
                                     .node_name = "n1",
                                     .node_kubeconfig = folder + "/node.kubeconfig",
                                     .check_certificates = std::chrono::milliseconds(1)});
  ASSERT_TRUE(server.ok()) << base::ToString(server.status());
  EXPECT_EQ(ModeOf(folder + "/node.kubeconfig"), 0600u);
  const std::string admin = read(folder + "/kubeconfig");
  const std::string node = read(folder + "/node.kubeconfig");
  EXPECT_THAT(node, HasSubstr("system:node:n1"));
  clock_.Advance(std::chrono::hours(24 * 310));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while ((read(folder + "/kubeconfig") == admin || read(folder + "/node.kubeconfig") == node) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(read(folder + "/kubeconfig"), admin);
  EXPECT_NE(read(folder + "/node.kubeconfig"), node);
}

TEST_F(ApiTest, ADamagedCertificateIsMadeAgain) {
  const std::string folder = folder_ + "/certs";
  const auto now = base::SystemClock().Now();
  ASSERT_TRUE(EnsureCertificates(At127(folder), now).ok());
  std::ofstream(folder + "/server.crt") << "torn";
  const auto again = EnsureCertificates(At127(folder), now);
  ASSERT_TRUE(again.ok()) << base::ToString(again.status());
  EXPECT_TRUE(again->renewed);
  EXPECT_THAT(again->server_certificate, StartsWith("-----BEGIN CERTIFICATE-----"));
}

TEST_F(ApiTest, TokensNameTheAccountAndItsPod) {
  const auto pod = Post(kPods, PodNamed("p"));
  ASSERT_EQ(pod.code, 201);
  const std::string path = "/api/v1/namespaces/default/serviceaccounts/default/token";
  const auto issued =
      Post(path, {{"spec",
                   {{"audiences", {"vault"}},
                    {"expirationSeconds", 1200},
                    {"boundObjectRef",
                     {{"kind", "Pod"}, {"name", "p"}, {"uid", pod.json["metadata"]["uid"]}}}}}});
  ASSERT_EQ(issued.code, 201) << issued.body;
  EXPECT_EQ(issued.json["status"]["expirationTimestamp"], "2026-01-01T00:20:00Z");
  const std::string token = issued.json["status"]["token"];
  const size_t dot = token.find('.');
  const Json claims =
      base::json::Parse(*base::DecodeBase64Url(token.substr(dot + 1, token.rfind('.') - dot - 1)))
          .value();
  EXPECT_EQ(claims["sub"], "system:serviceaccount:default:default");
  EXPECT_EQ(claims["aud"], Json::array({"vault"}));
  EXPECT_EQ(claims["exp"].get<int64_t>() - claims["iat"].get<int64_t>(), 1200);
  EXPECT_EQ(claims["kubernetes.io"]["pod"]["uid"], pod.json["metadata"]["uid"]);
  EXPECT_EQ(base::DecodeBase64Url(token.substr(token.rfind('.') + 1))->size(), 64u);

  EXPECT_EQ(Post(path, {{"spec", {{"expirationSeconds", 5}}}}).code, 422);
  EXPECT_EQ(Post(path, {{"spec", {{"boundObjectRef", {{"kind", "Pod"}, {"name", "nope"}}}}}}).code,
            404);
  EXPECT_EQ(Post("/api/v1/namespaces/default/serviceaccounts/nope/token", Json::object()).code,
            404);
}

// A node agent's socket that answers one request with what it is told.
class FakeNode {
 public:
  FakeNode(const std::string& path, std::string answer)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_.get(), 1), 0);
    thread_ = std::jthread([this, answer = std::move(answer)] {
      const base::UniqueFd peer(accept(fd_.get(), nullptr, nullptr));
      char data[4096];
      while (request_.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(peer.get(), data, sizeof(data), 0);
        if (got <= 0) return;
        request_.append(data, static_cast<size_t>(got));
      }
      send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      if (!answer.starts_with("HTTP/1.1 101")) return;
      // After the switch all bytes are sent back until the client ends, also those that came with
      // the head.
      const size_t head = request_.find("\r\n\r\n") + 4;
      send(peer.get(), request_.data() + head, request_.size() - head, MSG_NOSIGNAL);
      for (ssize_t got; (got = recv(peer.get(), data, sizeof(data), 0)) > 0;) {
        send(peer.get(), data, static_cast<size_t>(got), MSG_NOSIGNAL);
      }
    });
  }
  ~FakeNode() {
    shutdown(fd_.get(), SHUT_RDWR);
    thread_.join();
  }
  // After the answer has arrived.
  const std::string& request() const { return request_; }

 private:
  base::UniqueFd fd_;
  std::string request_;
  std::jthread thread_;
};

class PodStreamsTest : public ApiTest {
 protected:
  void CreatePod(int containers) {
    Json pod = PodNamed("p");
    pod["spec"]["nodeName"] = "n1";
    for (int i = 1; i < containers; ++i) {
      pod["spec"]["containers"].push_back({{"name", fmt::format("c{}", i)}, {"image", "x"}});
    }
    const auto created = Post(kPods, pod);
    ASSERT_EQ(created.code, 201) << created.body;
    uid_ = created.json["metadata"]["uid"];
  }
  std::string node_socket() const { return folder_ + "/nodes/n1.sock"; }
  std::string uid_;
};

TEST_F(PodStreamsTest, LogsComeFromThePodsNode) {
  CreatePod(1);
  FakeNode node(
      node_socket(),
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nline 1\nline 2\n");
  TestConnection connection(socket());
  connection.Send(RequestText("GET", At(kPods, "p") + "/log?follow=true&tailLines=5", "",
                              "Authorization: Bearer secret\r\nX-Remote-User: eve\r\n"
                              "x-remote-group: system:nodes\r\n"));
  EXPECT_THAT(connection.ReadToEnd(), testing::EndsWith("\r\n\r\nline 1\nline 2\n"));
  EXPECT_THAT(
      node.request(),
      StartsWith(fmt::format(
          "GET /containerLogs/default/p/{}/main?follow=true&tailLines=5 HTTP/1.1\r\n", uid_)));
  EXPECT_THAT(node.request(), HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(node.request(), testing::Not(HasSubstr("secret")));
  // The agent learns the user from the server alone.
  EXPECT_THAT(node.request(), HasSubstr("X-Remote-User: root\r\n"));
  EXPECT_THAT(node.request(), HasSubstr("X-Remote-Group: system:masters\r\n"));
  EXPECT_THAT(node.request(), testing::Not(HasSubstr("eve")));
  EXPECT_THAT(node.request(), testing::Not(HasSubstr("system:nodes")));
}

TEST_F(PodStreamsTest, ExecSplicesBytesAfterTheSwitch) {
  CreatePod(1);
  FakeNode node(
      node_socket(),
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
  TestConnection connection(socket());
  connection.Send(RequestText("POST", At(kPods, "p") + "/exec?command=sh&stdin=true", "",
                              "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n") +
                  "early");
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 101 "));
  EXPECT_EQ(connection.ReadExactly(5), "early");
  const std::string much(2'000'000, 'x');
  std::jthread sender([&] { connection.Send(much); });
  EXPECT_EQ(connection.ReadExactly(much.size()), much);
  sender.join();
  connection.ShutdownWrite();
  EXPECT_THAT(node.request(),
              StartsWith(fmt::format("POST /exec/default/p/{}/main?command=sh&stdin=true ", uid_)));
  EXPECT_THAT(node.request(), HasSubstr("Upgrade: SPDY/3.1\r\n"));
}

TEST_F(PodStreamsTest, SaysWhatIsMissing) {
  EXPECT_EQ(Get(At(kPods, "p") + "/log").code, 404);
  CreatePod(2);
  const auto which = Get(At(kPods, "p") + "/log");
  EXPECT_EQ(which.code, 400);
  EXPECT_EQ(which.message(),
            "a container name must be specified for pod p, choose one of: [main c1]");
  EXPECT_EQ(Get(At(kPods, "p") + "/log?container=nope").message(),
            "container nope is not valid for pod p");
  const auto absent = Get(At(kPods, "p") + "/log?container=main");
  EXPECT_EQ(absent.code, 503);
  EXPECT_THAT(absent.message(), HasSubstr("the agent of node \"n1\" cannot be reached"));
  ASSERT_EQ(Post(kPods, PodNamed("unplaced")).code, 201);
  EXPECT_EQ(Get(At(kPods, "unplaced") + "/log").message(),
            "pod unplaced does not have a host assigned");
}

}  // namespace
}  // namespace berth::apiserver
