// Who sends a request: certificates' and tokens' owners, impersonation, and what the reviews say
// of them.

#include "apiserver/access/authentication.h"

#include <sys/stat.h>

#include <fstream>

#include "apiserver/access/certificates.h"
#include "apiserver/api_fixture.h"
#include "base/base64.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "platform/files/durable_file.h"

namespace berth::apiserver {
namespace {

using base::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kAccounts = "/api/v1/namespaces/default/serviceaccounts";

class AuthenticationTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    ASSERT_EQ(Post(kAccounts, {{"metadata", {{"name", "robot"}}}}).code, 201);
  }

  // A token of the account; `spec` is the TokenRequest's.
  std::string Token(const Json& spec = Json::object()) {
    const auto issued = Post(At(kAccounts, "robot") + "/token", {{"spec", spec}});
    EXPECT_EQ(issued.code, 201) << issued.body;
    return base::json::String(issued.json, {"status", "token"});
  }

  // What a client with the token, and no certificate, is answered over TLS.
  base::Status WithToken(const std::string& token, const api::KindInfo& kind = api::kinds::kPod) {
    auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig").value();
    config.client_certificate.clear();
    config.client_key.clear();
    config.token = token;
    auto client = kube::NewHttpClient(config).value();
    return client->List(kind, "", {}).status();
  }

  TestResponse As(std::string_view method, std::string_view target, const std::string& headers,
                  const Json& body = nullptr) {
    return Call(method, target, body.is_null() ? "" : base::json::Dump(body),
                headers + "Content-Type: application/json\r\n");
  }

  TestResponse Review(std::string_view path, const Json& spec, const std::string& headers = "") {
    return As("POST", path, headers, {{"spec", spec}});
  }
  std::string token_file() const { return folder_ + "/tokens.json"; }
};

constexpr std::string_view kTokenReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr std::string_view kSelfReviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
constexpr std::string_view kSelfAccess = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

TEST_F(AuthenticationTest, AServiceAccountsTokenIsAnIdentityWithoutRights) {
  const auto answer = WithToken(Token());
  EXPECT_EQ(answer.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(base::Message(answer)),
              HasSubstr("User \"system:serviceaccount:default:robot\" cannot list resource "
                        "\"pods\""));
  ASSERT_EQ(Patch(At(kAccounts, "robot"),
                  {{"metadata", {{"annotations", {{"berth.dev/role", "administrator"}}}}}})
                .code,
            200);
  EXPECT_TRUE(WithToken(Token()).ok());
}

TEST_F(AuthenticationTest, TokensThatAreNotTheServersAreRefused) {
  const std::string token = Token();
  const size_t dot = token.find('.');
  const size_t last = token.rfind('.');
  std::string forged = token;
  forged[dot + 5] = forged[dot + 5] == 'A' ? 'B' : 'A';
  std::string broken = token;
  broken[last + 4] = broken[last + 4] == 'A' ? 'B' : 'A';
  const std::string unsigned_token =
      base::EncodeBase64Url(R"({"alg":"none","typ":"JWT"})") + token.substr(dot, last - dot) + ".";
  for (const std::string& bad :
       {std::string("x"), std::string(".."), forged, broken, unsigned_token,
        token.substr(0, last + 1), std::string("berth-bbbbbbbbbb.secret"), token + "A"}) {
    EXPECT_EQ(WithToken(bad).code(), StatusCode::kUnauthenticated) << bad;
  }
}

TEST_F(AuthenticationTest, TokensEnd) {
  const std::string token = Token({{"expirationSeconds", 600}});
  EXPECT_EQ(WithToken(token).code(), StatusCode::kPermissionDenied);
  clock_.Advance(std::chrono::seconds(599));
  EXPECT_EQ(WithToken(token).code(), StatusCode::kPermissionDenied);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(WithToken(token).code(), StatusCode::kUnauthenticated);
}

TEST_F(AuthenticationTest, TokensEndWithTheirAccountAndWhatTheyAreBoundTo) {
  Json pod = PodNamed("p");
  pod["spec"]["serviceAccountName"] = "robot";
  ASSERT_EQ(Post(kPods, pod).code, 201);
  const std::string bound = Token({{"boundObjectRef", {{"kind", "Pod"}, {"name", "p"}}}});
  EXPECT_EQ(WithToken(bound).code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(Delete(At(kPods, "p"), {{"gracePeriodSeconds", 0}}).code, 200);
  EXPECT_EQ(WithToken(bound).code(), StatusCode::kUnauthenticated);
  ASSERT_EQ(Post(kPods, pod).code, 201);  // another of that name
  EXPECT_EQ(WithToken(bound).code(), StatusCode::kUnauthenticated);

  const std::string secrets = "/api/v1/namespaces/default/secrets";
  ASSERT_EQ(Post(secrets, {{"metadata", {{"name", "s"}}}}).code, 201);
  const std::string by_secret = Token({{"boundObjectRef", {{"kind", "Secret"}, {"name", "s"}}}});
  EXPECT_EQ(WithToken(by_secret).code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(Delete(At(secrets, "s")).code, 200);
  EXPECT_EQ(WithToken(by_secret).code(), StatusCode::kUnauthenticated);

  ASSERT_EQ(Post("/api/v1/nodes", {{"metadata", {{"name", "n"}}}}).code, 201);
  const std::string by_node = Token({{"boundObjectRef", {{"kind", "Node"}, {"name", "n"}}}});
  EXPECT_EQ(WithToken(by_node).code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(Delete("/api/v1/nodes/n").code, 200);
  EXPECT_EQ(WithToken(by_node).code(), StatusCode::kUnauthenticated);

  const std::string free = Token();
  ASSERT_EQ(Delete(At(kAccounts, "robot")).code, 200);
  EXPECT_EQ(WithToken(free).code(), StatusCode::kUnauthenticated);
  ASSERT_EQ(Post(kAccounts, {{"metadata", {{"name", "robot"}}}}).code, 201);
  EXPECT_EQ(WithToken(free).code(), StatusCode::kUnauthenticated);
}

TEST_F(AuthenticationTest, ATokenForOthersIsNotForTheApi) {
  const std::string vault = Token({{"audiences", {"vault"}}});
  EXPECT_EQ(WithToken(vault).code(), StatusCode::kUnauthenticated);
  const auto for_vault = Review(kTokenReviews, {{"token", vault}, {"audiences", {"vault", "x"}}});
  ASSERT_EQ(for_vault.code, 201) << for_vault.body;
  EXPECT_EQ(for_vault.json["status"]["authenticated"], true);
  EXPECT_EQ(for_vault.json["status"]["audiences"], Json::array({"vault"}));
  EXPECT_EQ(for_vault.json["status"]["user"]["username"], "system:serviceaccount:default:robot");
  EXPECT_FALSE(for_vault.json["spec"].contains("token"));
  const auto for_api = Review(kTokenReviews, {{"token", vault}});
  EXPECT_FALSE(for_api.json["status"].contains("authenticated"));
  EXPECT_THAT(for_api.json["status"]["error"].get<std::string>(), HasSubstr("another audience"));
}

TEST_F(AuthenticationTest, PeoplesTokensAreHashedAndEndWhenRemoved) {
  const auto token =
      AddStaticToken(token_file(), {.user = "jane",
                                    .groups = {"system:masters"},
                                    .created = clock_.Now(),
                                    .expires = clock_.Now() + std::chrono::hours(1)});
  ASSERT_TRUE(token.ok()) << base::ToString(token.status());
  struct stat info{};
  ASSERT_EQ(stat(token_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const auto stored = ReadStaticTokens(token_file());
  ASSERT_EQ(stored->size(), 1u);
  EXPECT_EQ(stored->front().hash.find(token->substr(17)), std::string::npos);

  EXPECT_TRUE(WithToken(*token).ok());
  std::string wrong = *token;
  wrong.back() = wrong.back() == 'A' ? 'E' : 'A';
  EXPECT_EQ(WithToken(wrong).code(), StatusCode::kUnauthenticated);
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(WithToken(*token).code(), StatusCode::kUnauthenticated);

  const auto other = AddStaticToken(token_file(), {.user = "joe", .created = clock_.Now()});
  EXPECT_EQ(WithToken(*other).code(), StatusCode::kPermissionDenied);
  ASSERT_TRUE(RemoveStaticToken(token_file(), other->substr(6, 10)).ok());
  EXPECT_EQ(WithToken(*other).code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(RemoveStaticToken(token_file(), "nope").code(), StatusCode::kNotFound);
}

TEST_F(AuthenticationTest, WhatACrashLeftOfTheTokenFileGoesWithTheNextChange) {
  const std::string path = folder_ + "/torn/tokens.json";
  ASSERT_TRUE(platform::MakeFolders(folder_ + "/torn").ok());
  std::ofstream(folder_ + "/torn/.tokens.json.tmp-Ab12Cd") << "{";
  ASSERT_TRUE(AddStaticToken(path, {.user = "jane", .created = clock_.Now()}).ok());
  EXPECT_THAT(*platform::ListFolder(folder_ + "/torn"),
              testing::ElementsAre("tokens.json", "tokens.json.lock"));
}

TEST_F(AuthenticationTest, ATokenFileThatOthersCanReadCountsForNothing) {
  const auto token = AddStaticToken(
      token_file(), {.user = "jane", .groups = {"system:masters"}, .created = clock_.Now()});
  EXPECT_TRUE(WithToken(*token).ok());
  ASSERT_EQ(chmod(token_file().c_str(), 0644), 0);
  EXPECT_EQ(WithToken(*token).code(), StatusCode::kUnauthenticated);
  ASSERT_EQ(chmod(token_file().c_str(), 0600), 0);
  EXPECT_TRUE(WithToken(*token).ok());
}

TEST_F(AuthenticationTest, AConnectionDoesNotOutliveItsCertificate) {
  StaticTokens none("");
  const auto key =
      EnsureCertificates({.folder = folder_ + "/k", .listen_address = "127.0.0.1"}, clock_.Now());
  const TokenSigner signer = TokenSigner::Load(key->token_key).value();
  Revocations nothing({});
  Authenticator authenticator(*store_, clock_, signer, none, nothing);
  http::Request request{.method = "GET", .target = "/api"};
  request.user = std::make_shared<http::User>(
      http::User{.name = "x", .uid = {}, .valid_until = clock_.Now() + std::chrono::seconds(1)});
  const auto now = authenticator.Identify(request);
  ASSERT_TRUE(now.ok());
  EXPECT_THAT((*now)->groups, ElementsAre("system:authenticated"));
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(authenticator.Identify(request).status().code(), StatusCode::kUnauthenticated);
}

TEST_F(AuthenticationTest, AdministratorsMayActAsOthers) {
  const std::string robot = "Impersonate-User: system:serviceaccount:default:robot\r\n";
  const auto self = As("POST", kSelfReviews, robot, Json::object());
  ASSERT_EQ(self.code, 201) << self.body;
  const Json& user = self.json["status"]["userInfo"];
  EXPECT_EQ(user["username"], "system:serviceaccount:default:robot");
  EXPECT_EQ(user["groups"], Json::array({"system:serviceaccounts", "system:serviceaccounts:default",
                                         "system:authenticated"}));
  EXPECT_EQ(As("GET", kPods, robot).code, 403);
  EXPECT_EQ(As("GET", kPods, "Impersonate-User: x\r\nImpersonate-Group: system:masters\r\n").code,
            200);
  EXPECT_EQ(As("GET", kPods, "Impersonate-Group: x\r\n").code, 400);

  // Nobody else may, not even to become less.
  auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig").value();
  config.client_certificate.clear();
  config.client_key.clear();
  config.token = Token();
  config.impersonate_user = "joe";
  const auto refused = kube::NewHttpClient(config).value()->List(api::kinds::kPod, "", {}).status();
  EXPECT_THAT(std::string(base::Message(refused)),
              HasSubstr("users \"joe\" is forbidden: User "
                        "\"system:serviceaccount:default:robot\" cannot impersonate resource "
                        "\"users\" in API group \"\" at the cluster scope"));
}

TEST_F(AuthenticationTest, ReviewsAnswerAsTheAuthorizerDoes) {
  const Json list_pods = {{"resourceAttributes", {{"verb", "list"}, {"resource", "pods"}}}};
  EXPECT_EQ(Review(kSelfAccess, list_pods).json["status"]["allowed"], true);
  const auto as_node = Review(kSelfAccess, list_pods,
                              "Impersonate-User: system:node:a\r\nImpersonate-Group: "
                              "system:nodes\r\n");
  ASSERT_EQ(as_node.code, 201) << as_node.body;
  EXPECT_EQ(as_node.json["status"]["allowed"], false);
  EXPECT_EQ(as_node.json["status"]["reason"],
            "can only list/watch pods with spec.nodeName field selector");

  constexpr std::string_view kAccess = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
  Json spec = list_pods;
  spec["user"] = "system:node:a";
  spec["groups"] = {"system:nodes"};
  spec["resourceAttributes"]["fieldSelector"]["rawSelector"] = "spec.nodeName=a";
  EXPECT_EQ(Review(kAccess, spec).json["status"]["allowed"], true);
  spec["resourceAttributes"]["fieldSelector"] = {
      {"requirements", {{{"key", "spec.nodeName"}, {"operator", "In"}, {"values", {"b"}}}}}};
  EXPECT_EQ(Review(kAccess, spec).json["status"]["allowed"], false);
  EXPECT_EQ(Review(kAccess, list_pods).code, 422);  // whose access?
  EXPECT_EQ(Review(kSelfAccess, Json::object()).code, 422);
  EXPECT_EQ(Review(kSelfAccess, {{"nonResourceAttributes", {{"verb", "get"}, {"path", "/x"}}}})
                .json["status"]["allowed"],
            true);

  constexpr std::string_view kLocal =
      "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
  Json local = {
      {"user", "jane"},
      {"resourceAttributes", {{"verb", "get"}, {"resource", "pods"}, {"namespace", "default"}}}};
  EXPECT_EQ(Review(kLocal, local).json["status"]["allowed"], false);
  local["resourceAttributes"]["namespace"] = "other";
  EXPECT_EQ(Review(kLocal, local).code, 422);

  constexpr std::string_view kRules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const auto rules = Review(kRules, {{"namespace", "default"}});
  EXPECT_EQ(rules.json["status"]["resourceRules"][0]["verbs"], Json::array({"*"}));
  const auto few = Review(kRules, {{"namespace", "default"}}, "Impersonate-User: jane\r\n");
  EXPECT_EQ(few.json["status"]["resourceRules"].size(), 3u);
  EXPECT_EQ(few.json["status"]["incomplete"], false);
}

TEST_F(AuthenticationTest, ReviewsAreAskedAndNotKept) {
  EXPECT_EQ(Get(kSelfAccess).code, 405);
  EXPECT_EQ(Get(At(kSelfAccess, "x")).code, 405);
  EXPECT_EQ(Delete(At(kTokenReviews, "x")).code, 405);
}

TEST_F(AuthenticationTest, OthersCanVerifyTokensByThePublishedKey) {
  const auto about = Get("/.well-known/openid-configuration");
  ASSERT_EQ(about.code, 200) << about.body;
  EXPECT_EQ(about.json["issuer"], "https://kubernetes.default.svc.cluster.local");
  EXPECT_THAT(about.json["jwks_uri"].get<std::string>(), HasSubstr("/openid/v1/jwks"));
  const auto keys = Get("/openid/v1/jwks");
  EXPECT_THAT(keys.head, HasSubstr("application/jwk-set+json"));
  const Json& key = keys.json["keys"][0];
  const std::string token = Token();
  const Json header =
      base::json::Parse(*base::DecodeBase64Url(token.substr(0, token.find('.')))).value();
  EXPECT_EQ(key["kid"], header["kid"]);
  EXPECT_EQ(key["crv"], "P-256");
  EXPECT_EQ(base::DecodeBase64Url(key["x"].get<std::string>())->size(), 32u);
  EXPECT_EQ(base::DecodeBase64Url(key["y"].get<std::string>())->size(), 32u);
}

TEST_F(AuthenticationTest, NobodyMayLookButAtHealthAndVersion) {
  auto config = kube::LoadKubeconfig(folder_ + "/kubeconfig").value();
  config.client_certificate.clear();
  config.client_key.clear();
  auto client = kube::NewHttpClient(config).value();
  const auto get = [&](std::string_view path) {
    std::string body;
    const auto status = client->GetStream(path, "*/*", {}, [&](std::string_view chunk) {
      body += chunk;
      return true;
    });
    return status.ok() ? body : std::string(base::CodeName(status.code()));
  };
  for (const char* path : {"/healthz", "/livez", "/readyz"}) EXPECT_EQ(get(path), "ok") << path;
  EXPECT_THAT(get("/version"), HasSubstr("gitVersion"));
  for (const char* path : {"/api", "/apis", "/openapi/v2", "/api/v1/pods", "/nothing"}) {
    EXPECT_EQ(get(path), "UNAUTHENTICATED") << path;
  }
}

// A node agent as the server sees it.
class NodeAccessTest : public AuthenticationTest {
 protected:
  static constexpr const char* kNode =
      "Impersonate-User: system:node:a\r\nImpersonate-Group: system:nodes\r\n";
};

TEST_F(NodeAccessTest, WritesItsOwnNodeAndNoOther) {
  EXPECT_EQ(As("POST", "/api/v1/nodes", kNode, {{"metadata", {{"name", "a"}}}}).code, 201);
  const auto other = As("POST", "/api/v1/nodes", kNode, {{"metadata", {{"name", "b"}}}});
  EXPECT_EQ(other.code, 403);
  EXPECT_EQ(other.message(),
            "nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\"");
  ASSERT_EQ(Post("/api/v1/nodes", {{"metadata", {{"name", "b"}}}}).code, 201);
  const std::string patch = std::string(kNode) + "Content-Type: application/merge-patch+json\r\n";
  const auto status = [&](std::string_view name) {
    return Call("PATCH", fmt::format("/api/v1/nodes/{}/status", name),
                R"({"status":{"volumesInUse":["x"]}})", patch)
        .code;
  };
  EXPECT_EQ(status("a"), 200);
  EXPECT_EQ(status("b"), 403);
  // A write that changes nothing is refused as well: it would tell what is there.
  EXPECT_EQ(Call("PATCH", "/api/v1/nodes/b", "{}", patch).code, 403);
  EXPECT_EQ(As("GET", "/api/v1/nodes/a", kNode).code, 200);
  EXPECT_EQ(As("GET", "/api/v1/nodes/b", kNode).code, 403);
  EXPECT_EQ(As("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Da", kNode).code, 200);
}

TEST_F(NodeAccessTest, GetsTokensForItsPodsOnly) {
  Json pod = PodNamed("p");
  pod["spec"]["serviceAccountName"] = "robot";
  pod["spec"]["nodeName"] = "a";
  pod["spec"]["volumes"] = Json::array(
      {{{"name", "api"},
        {"projected",
         {{"sources", Json::array({{{"serviceAccountToken", {{"path", "token"}}}}})}}}}});
  const auto made = Post(kPods, pod);
  ASSERT_EQ(made.code, 201) << made.body;
  const std::string path = At(kAccounts, "robot") + "/token";
  Json bound = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "p"}, {"uid", made.json["metadata"]["uid"]}};
  const auto ask = [&](const Json& spec) { return As("POST", path, kNode, {{"spec", spec}}); };
  EXPECT_EQ(ask({{"boundObjectRef", bound}}).code, 201);
  EXPECT_THAT(ask(Json::object()).message(), HasSubstr("node requested token not bound to a pod"));
  Json loose = bound;
  loose.erase("uid");
  EXPECT_THAT(ask({{"boundObjectRef", loose}}).message(),
              HasSubstr("node requested token with a pod binding without a uid"));
  Json elsewhere = pod;
  elsewhere["metadata"]["name"] = "q";
  elsewhere["spec"]["nodeName"] = "b";
  const auto q = Post(kPods, elsewhere);
  EXPECT_THAT(ask({{"boundObjectRef",
                    {{"kind", "Pod"}, {"name", "q"}, {"uid", q.json["metadata"]["uid"]}}}})
                  .message(),
              HasSubstr("bound to a pod scheduled on a different node"));
  EXPECT_EQ(As("POST", At(kAccounts, "default") + "/token", kNode, {{"spec", Json::object()}}).code,
            403);
}

TEST_F(NodeAccessTest, GetsTokensOnlyForTheAudiencesOfItsPods) {
  const std::string drivers = "/apis/storage.k8s.io/v1/csidrivers";
  for (const char* name : {"inline", "claimed", "ephemeral"}) {
    const auto driver =
        Post(drivers,
             {{"metadata", {{"name", fmt::format("{}.csi", name)}}},
              {"spec",
               {{"volumeLifecycleModes", {"Persistent", "Ephemeral"}},
                {"tokenRequests", Json::array({{{"audience", fmt::format("of-{}", name)}}})}}}});
    ASSERT_EQ(driver.code, 201) << driver.body;
  }
  const auto add_claim = [&](const std::string& name, const char* driver) {
    const auto volume = Post("/api/v1/persistentvolumes",
                             {{"metadata", {{"name", name}}},
                              {"spec",
                               {{"capacity", {{"storage", "1Gi"}}},
                                {"accessModes", {"ReadWriteOnce"}},
                                {"csi", {{"driver", driver}, {"volumeHandle", name}}}}}});
    ASSERT_EQ(volume.code, 201) << volume.body;
    const auto claim = Post("/api/v1/namespaces/default/persistentvolumeclaims",
                            {{"metadata", {{"name", name}}},
                             {"spec",
                              {{"accessModes", {"ReadWriteOnce"}},
                               {"volumeName", name},
                               {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}});
    ASSERT_EQ(claim.code, 201) << claim.body;
  };
  add_claim("data", "claimed.csi");
  add_claim("p-scratch", "ephemeral.csi");
  Json pod = PodNamed("p");
  pod["spec"]["serviceAccountName"] = "robot";
  pod["spec"]["nodeName"] = "a";
  pod["spec"]["volumes"] = Json::array(
      {{{"name", "vault"},
        {"projected",
         {{"sources",
           Json::array({{{"serviceAccountToken", {{"path", "token"}, {"audience", "vault"}}}}})}}}},
       {{"name", "inline"}, {"csi", {{"driver", "inline.csi"}}}},
       {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}},
       {{"name", "scratch"},
        {"ephemeral",
         {{"volumeClaimTemplate",
           {{"spec",
             {{"accessModes", {"ReadWriteOnce"}},
              {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}}}}}}});
  const auto made = Post(kPods, pod);
  ASSERT_EQ(made.code, 201) << made.body;
  const Json bound = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "p"}, {"uid", made.json["metadata"]["uid"]}};
  const auto ask = [&](const Json& audiences) {
    return As("POST", At(kAccounts, "robot") + "/token", kNode,
              {{"spec", {{"boundObjectRef", bound}, {"audiences", audiences}}}});
  };
  for (const char* audience : {"vault", "of-inline", "of-claimed", "of-ephemeral"}) {
    const auto issued = ask({audience});
    EXPECT_EQ(issued.code, 201) << audience << issued.body;
  }
  const auto refused = ask({"bank"});
  EXPECT_EQ(refused.code, 403);
  EXPECT_THAT(refused.message(),
              HasSubstr("audience \"bank\" not found in pod spec volume, system:node:a is not "
                        "authorized to request tokens for this audience"));
  EXPECT_EQ(ask(Json::array()).code, 403) << "no volume of the pod has a token for the API itself";
  EXPECT_THAT(ask({"vault", "bank"}).message(), HasSubstr("only request 0 or 1 audiences"));
  EXPECT_EQ(Call("POST", At(kAccounts, "robot") + "/token",
                 base::json::Dump({{"spec", {{"audiences", {"bank"}}}}}),
                 "Content-Type: application/json\r\n")
                .code,
            201)
      << "administrators are not held to it";
}

TEST_F(NodeAccessTest, DeletesItsPodsAndReadsTheirSecrets) {
  const std::string secrets = "/api/v1/namespaces/default/secrets";
  for (const char* name : {"used", "unused"}) {
    ASSERT_EQ(Post(secrets, {{"metadata", {{"name", name}}}}).code, 201);
  }
  for (const char* node : {"a", "b"}) {
    Json pod = PodNamed(fmt::format("on-{}", node));
    pod["spec"]["nodeName"] = node;
    pod["spec"]["volumes"] = Json::array(
        {{{"name", "v"}, {"secret", {{"secretName", *node == 'a' ? "used" : "unused"}}}}});
    ASSERT_EQ(Post(kPods, pod).code, 201);
  }
  EXPECT_EQ(As("GET", At(secrets, "used"), kNode).code, 200);
  EXPECT_EQ(As("GET", secrets + "?fieldSelector=metadata.name%3Dused", kNode).code, 200);
  EXPECT_EQ(As("GET", At(secrets, "unused"), kNode).code, 403);
  EXPECT_EQ(As("GET", secrets, kNode).code, 403);
  EXPECT_EQ(As("GET", At(kPods, "on-a"), kNode).code, 200);
  EXPECT_EQ(As("GET", At(kPods, "on-b"), kNode).code, 403);
  EXPECT_EQ(As("DELETE", At(kPods, "on-b"), kNode).code, 403);
  EXPECT_EQ(Get(At(kPods, "on-b")).json["metadata"].contains("deletionTimestamp"), false);
  const auto evict = [&](const std::string& pod) {
    return As("POST", At(kPods, pod) + "/eviction", kNode,
              {{"metadata", {{"name", pod}, {"namespace", "default"}}}});
  };
  EXPECT_THAT(evict("on-b").message(),
              HasSubstr("node a can only evict pods with spec.nodeName set to itself"));
  EXPECT_EQ(evict("on-a").code, 201);
  EXPECT_EQ(As("DELETE", At(kPods, "on-a"), kNode, {{"gracePeriodSeconds", 0}}).code, 200);
}

}  // namespace
}  // namespace berth::apiserver
