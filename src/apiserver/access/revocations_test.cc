#include "apiserver/access/revocations.h"

#include <fstream>

#include "apiserver/api_fixture.h"
#include "base/assert_ok.h"
#include "kube/config.h"
#include "kube/http_client.h"
#include "platform/files/durable_file.h"

namespace berth::apiserver {
namespace {

using base::StatusCode;

// A server of its own, because it needs a list and certificates of this time.
class RevocationsTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    std::filesystem::create_directory(own_);
    StartOwnServer();
  }
  void StartOwnServer() {
    own_server_.reset();
    own_store_.reset();
    own_store_ = store::Store::Open({.path = own_ + "/store.db"}).value();
    auto server = Server::Start(*own_store_, now_,
                                {.unix_socket = own_ + "/api.sock",
                                 .port = 0,
                                 .certificate_folder = own_ + "/pki",
                                 .kubeconfig = own_ + "/kubeconfig",
                                 .node_sockets = own_,
                                 .node_name = "n1",
                                 .node_kubeconfig = own_ + "/node.kubeconfig",
                                 .revocation_file = list_});
    ASSERT_OK(server);
    own_server_ = *std::move(server);
  }
  void TearDown() override {
    own_server_.reset();
    own_store_.reset();
    std::filesystem::remove_all(own_);
    ApiTest::TearDown();
  }

  std::unique_ptr<kube::Client> ClientOf(const std::string& kubeconfig) const {
    return kube::NewHttpClient(kube::LoadKubeconfig(own_ + "/" + kubeconfig).value()).value();
  }
  static StatusCode Ask(kube::Client& client) {
    return client.List(api::kinds::kStorageClass, "", {}).status().code();
  }
  ClientCertificate Describe(const std::string& kubeconfig) const {
    const auto config = kube::LoadKubeconfig(own_ + "/" + kubeconfig).value();
    return DescribeCertificate(config.client_certificate,
                               platform::ReadFile(own_ + "/pki/ca.crt").value())
        .value();
  }
  void Revoke(const std::string& kubeconfig) {
    const ClientCertificate one = Describe(kubeconfig);
    ASSERT_OK(
        AddRevocation(files_, {.sha256 = one.sha256, .user = one.user, .revoked = now_.Now()}));
  }

  std::string own_ = "/tmp/berth-revocations-" + std::to_string(getpid());
  const std::string list_ = own_ + "/revoked.json";
  const RevocationFiles files_{.list = list_, .authority_folder = own_ + "/pki"};
  const base::SystemClock now_;
  std::unique_ptr<store::Store> own_store_;
  std::unique_ptr<Server> own_server_;
};

TEST_F(RevocationsTest, ARevokedCertificateIsRefusedAtOnceAndReplaced) {
  const auto admin = ClientOf("kubeconfig");  // its connection stays open
  const auto node = ClientOf("node.kubeconfig");
  ASSERT_EQ(Ask(*admin), StatusCode::kOk);
  const ClientCertificate before = Describe("kubeconfig");
  EXPECT_EQ(before.user, "berth-admin");
  const std::string written = platform::ReadFile(own_ + "/kubeconfig").value();
  Revoke("kubeconfig");
  Revoke("kubeconfig");  // again is no harm
  EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated);
  EXPECT_NE(Ask(*node), StatusCode::kUnauthenticated) << "only the named certificate is revoked";

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (platform::ReadFile(own_ + "/kubeconfig").value() == written &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(Describe("kubeconfig").sha256, before.sha256);
  EXPECT_EQ(Ask(*ClientOf("kubeconfig")), StatusCode::kOk);
  EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated);
  EXPECT_EQ(ReadRevocations(files_)->size(), 1u);
}

TEST_F(RevocationsTest, ADamagedListRefusesEveryCertificate) {
  const auto admin = ClientOf("kubeconfig");
  ASSERT_EQ(Ask(*admin), StatusCode::kOk);
  for (const char* damaged : {"{", "[]", "{\"certificates\": [{\"sha256\": \"x\"}]}"}) {
    std::ofstream(list_) << damaged;
    EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated) << damaged;
    EXPECT_EQ(ReadRevocations(files_).status().code(), StatusCode::kDataLoss) << damaged;
  }
  const auto root = kube::NewHttpClient({.socket = own_ + "/api.sock"}).value();
  EXPECT_EQ(Ask(*root), StatusCode::kOk) << "root mends it";
  std::filesystem::remove(list_);
  EXPECT_EQ(Ask(*admin), StatusCode::kOk);
}

TEST_F(RevocationsTest, ALostListRefusesEveryCertificate) {
  Revoke("node.kubeconfig");
  const std::string whole = platform::ReadFile(list_).value();
  const auto admin = ClientOf("kubeconfig");
  ASSERT_EQ(Ask(*admin), StatusCode::kOk);
  const auto root = kube::NewHttpClient({.socket = own_ + "/api.sock"}).value();
  std::filesystem::remove(list_);
  EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(*root), StatusCode::kOk) << "root mends it";
  std::ofstream(list_) << "{\"certificates\": []}";  // an older copy
  EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated);
  std::ofstream(list_) << whole.substr(0, whole.size() / 2);
  EXPECT_EQ(Ask(*admin), StatusCode::kUnauthenticated);
  const auto refused = ReadRevocations(files_);
  EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(base::Message(refused.status()), testing::HasSubstr("put the list back"));
  EXPECT_EQ(AddRevocation(files_, {.sha256 = std::string(64, 'a'), .user = "x"}).code(),
            StatusCode::kDataLoss)
      << "a new list would hide that the old one is lost";
  std::ofstream(list_) << whole;
  EXPECT_EQ(Ask(*admin), StatusCode::kOk);
}

TEST_F(RevocationsTest, AListThatWasLostWhileNoServerRanIsMissedAtTheStart) {
  Revoke("node.kubeconfig");
  std::filesystem::remove(list_);
  StartOwnServer();
  EXPECT_EQ(Ask(*ClientOf("kubeconfig")), StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(*kube::NewHttpClient({.socket = own_ + "/api.sock"}).value()), StatusCode::kOk);
  // What the message advises: a new authority.
  const auto before = kube::LoadKubeconfig(own_ + "/kubeconfig").value();
  std::filesystem::remove(list_);
  std::filesystem::remove(own_ + "/pki/ca.crt");
  std::filesystem::remove(own_ + "/pki/ca.key");
  StartOwnServer();
  EXPECT_EQ(Ask(*ClientOf("kubeconfig")), StatusCode::kOk);
  auto earlier = kube::LoadKubeconfig(own_ + "/kubeconfig").value();
  earlier.client_certificate = before.client_certificate;
  earlier.client_key = before.client_key;
  EXPECT_EQ(Ask(*kube::NewHttpClient(earlier).value()), StatusCode::kUnauthenticated);
}

TEST_F(RevocationsTest, AListFromBeforeThereWasARecordIsRecorded) {
  Revoke("node.kubeconfig");
  const std::string record = own_ + "/pki/revocations.json";
  std::filesystem::remove(record);
  StartOwnServer();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(record) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::filesystem::remove(list_);
  EXPECT_EQ(Ask(*ClientOf("kubeconfig")), StatusCode::kUnauthenticated);
  std::ofstream(record) << "{";
  EXPECT_THAT(base::Message(ReadRevocations(files_).status()), testing::HasSubstr("damaged"));
  EXPECT_EQ(Ask(*ClientOf("kubeconfig")), StatusCode::kUnauthenticated);
}

TEST_F(RevocationsTest, ACertificateOfAnotherAuthorityIsNotRevokedInVain) {
  const auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig").value();
  EXPECT_EQ(DescribeCertificate(config.client_certificate,
                                platform::ReadFile(own_ + "/pki/ca.crt").value())
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::apiserver
