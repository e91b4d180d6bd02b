#include "apiserver/access/revocations.h"

#include <fstream>

#include "apiserver/api_fixture.h"
#include "base/assert_ok.h"
#include "base/json.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
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

// Replaces the beginning of a JSON object, which is its version.
std::string ReplaceVersion(std::string text, std::string_view by) {
  constexpr std::string_view kMember = "\"version\":1";
  const size_t at = text.find(kMember);
  EXPECT_NE(at, std::string::npos) << text;
  if (at != std::string::npos) text.replace(at, kMember.size(), by);
  return text;
}

TEST_F(RevocationsTest, FilesWithoutAVersionCountAndThoseOfANewerVersionRefuseEveryCertificate) {
  const auto admin = ClientOf("kubeconfig");
  const auto node = ClientOf("node.kubeconfig");
  Revoke("node.kubeconfig");
  for (const std::string& path : {list_, own_ + "/pki/revocations.json"}) {
    const std::string written = platform::ReadFile(path).value();
    base::Json old = base::json::Parse(written).value();
    EXPECT_EQ(old.erase("version"), 1U) << path;
    std::ofstream(path) << base::json::Dump(old);
    ASSERT_OK(ReadRevocations(files_));
    EXPECT_EQ(ReadRevocations(files_)->size(), 1u) << path;
    std::ofstream(path) << ReplaceVersion(written, R"("version":2)");
    const auto newer = ReadRevocations(files_);
    EXPECT_EQ(newer.status().code(), StatusCode::kDataLoss) << path;
    EXPECT_THAT(base::Message(newer.status()), testing::HasSubstr("version 2 is not 1")) << path;
    std::ofstream(path) << base::json::Dump(old);  // both files are old in the end
  }
  EXPECT_EQ(Ask(*node), StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(*admin), StatusCode::kOk);
  std::filesystem::remove(list_);
  EXPECT_EQ(ReadRevocations(files_).status().code(), StatusCode::kDataLoss)
      << "the old record still says that the list has an entry";
}

TEST_F(RevocationsTest, AListWithoutAVersionGetsOneWithTheNextCertificate) {
  Revoke("node.kubeconfig");
  base::Json old = base::json::Parse(platform::ReadFile(list_).value()).value();
  old.erase("version");
  std::ofstream(list_) << base::json::Dump(old);
  ASSERT_OK(AddRevocation(files_, {.sha256 = std::string(64, 'a'), .user = "x"}));
  const base::Json list = base::json::Parse(platform::ReadFile(list_).value()).value();
  EXPECT_EQ(base::json::Int(list, {"version"}), 1);
  EXPECT_EQ(base::json::Array(list, {"certificates"}).size(), 2u);
  EXPECT_EQ(base::json::Array(list, {"certificates"})[0],
            base::json::Array(old, {"certificates"})[0]);
}

TEST_F(RevocationsTest, WhatACrashLeftOfTheListGoesWithTheNextCertificate) {
  const std::string torn = own_ + "/.revoked.json.tmp-Ab12Cd";
  std::ofstream(torn) << "{";
  Revoke("node.kubeconfig");
  EXPECT_FALSE(std::filesystem::exists(torn));
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

// An authority that ends in 50 days is renewed at the start of the server.
TEST_F(RevocationsTest, CertificatesOfAnAuthorityThatIsRenewedCountUntilItEnds) {
  constexpr auto kDay = std::chrono::hours(24);
  own_server_.reset();
  std::filesystem::remove_all(own_ + "/pki");
  const CertificateOptions options{
      .folder = own_ + "/pki", .listen_address = "127.0.0.1", .node_name = "n1"};
  ASSERT_OK(EnsureCertificates(options, now_.Now() - 3600 * kDay));
  const auto before = EnsureCertificates(options, now_.Now() - 20 * kDay);
  ASSERT_OK(before);
  StartOwnServer();
  const auto config = kube::LoadKubeconfig(own_ + "/kubeconfig").value();
  const auto admin = ClientOf("kubeconfig");
  EXPECT_EQ(Ask(*admin), StatusCode::kOk);
  auto earlier = config;
  earlier.certificate_authority = before->ca_certificate;
  earlier.client_certificate = before->admin_certificate;
  earlier.client_key = before->admin_key;
  EXPECT_NE(config.certificate_authority, before->ca_certificate);
  const auto client = kube::NewHttpClient(earlier).value();
  EXPECT_EQ(Ask(*client), StatusCode::kOk) << "it knows only the earlier authority";

  const auto described = DescribeCertificate(before->admin_certificate,
                                             platform::ReadFile(own_ + "/pki/ca.crt").value());
  ASSERT_OK(described);
  ASSERT_OK(AddRevocation(files_, {.sha256 = described->sha256, .user = described->user}));
  EXPECT_EQ(Ask(*client), StatusCode::kUnauthenticated);
  EXPECT_EQ(Ask(*admin), StatusCode::kOk);

  const auto late = EnsureCertificates(options, now_.Now() + 44 * kDay);
  ASSERT_OK(late);
  EXPECT_EQ(late->ca_certificate, config.certificate_authority);
  EXPECT_NE(late->server_certificate, before->server_certificate)
      << "its authority ends in six days";
  const auto after = EnsureCertificates(options, now_.Now() + 51 * kDay);
  ASSERT_OK(after);
  EXPECT_TRUE(after->renewed);
  EXPECT_EQ(DescribeCertificate(before->admin_certificate, after->ca_certificate).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_OK(DescribeCertificate(after->admin_certificate, after->ca_certificate));
}

TEST_F(RevocationsTest, ALostListIsMissedAfterTheAuthorityWasRenewed) {
  constexpr auto kDay = std::chrono::hours(24);
  own_server_.reset();
  std::filesystem::remove_all(own_ + "/pki");
  const CertificateOptions options{.folder = own_ + "/pki", .listen_address = "127.0.0.1"};
  ASSERT_OK(EnsureCertificates(options, now_.Now() - 3600 * kDay));
  ASSERT_OK(AddRevocation(files_, {.sha256 = std::string(64, 'a'), .user = "x"}));
  ASSERT_OK(EnsureCertificates(options, now_.Now()));
  std::filesystem::remove(list_);
  EXPECT_EQ(ReadRevocations(files_).status().code(), StatusCode::kDataLoss);
  ASSERT_OK(EnsureCertificates(options, now_.Now() + 51 * kDay));
  ASSERT_OK(ReadRevocations(files_));  // the authority of the lost entries has ended
}

TEST_F(RevocationsTest, ARenewalOfTheAuthorityThatACrashInterruptedIsDoneAgain) {
  constexpr auto kDay = std::chrono::hours(24);
  own_server_.reset();
  std::filesystem::remove_all(own_ + "/pki");
  const CertificateOptions options{.folder = own_ + "/pki", .listen_address = "127.0.0.1"};
  const auto before = EnsureCertificates(options, now_.Now() - 3600 * kDay);
  ASSERT_OK(before);
  const std::string key = platform::ReadFile(own_ + "/pki/ca.key").value();
  ASSERT_OK(EnsureCertificates(options, now_.Now()));
  std::ofstream(own_ + "/pki/ca.key") << key;  // as if the new one had not been written
  const auto after = EnsureCertificates(options, now_.Now());
  ASSERT_OK(after);
  ASSERT_OK(DescribeCertificate(before->admin_certificate, after->ca_certificate));
  ASSERT_OK(DescribeCertificate(after->admin_certificate, after->ca_certificate));
  EXPECT_NE(platform::ReadFile(own_ + "/pki/ca.key").value(), key);
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
