#include "apiserver/token_issuer.h"

#include <openssl/ecdsa.h>

#include "api/time.h"
#include "apiserver/body_decoder.h"
#include "apiserver/object_text.h"
#include "base/base64.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::Int;
using base::json::String;

namespace {

constexpr std::string_view kIssuer = "https://kubernetes.default.svc.cluster.local";
constexpr int64_t kDefaultLife = 3600;
constexpr int64_t kMinLife = 600;
constexpr int64_t kMaxLife = int64_t{1} << 32;
constexpr size_t kCoordinate = 32;  // bytes of r and of s on P-256

// JWT wants r and s side by side, OpenSSL gives them in DER.
base::StatusOr<std::string> RawSignature(const std::vector<unsigned char>& der) {
  const unsigned char* at = der.data();
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
  if (signature == nullptr) return OpenSslError("decode a signature");
  std::string raw(2 * kCoordinate, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), out, kCoordinate);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), out + kCoordinate, kCoordinate);
  ECDSA_SIG_free(signature);
  return raw;
}

base::StatusOr<int64_t> LifeOf(const Json& spec) {
  const int64_t life = Int(spec, {"expirationSeconds"}, kDefaultLife);
  if (life >= kMinLife && life <= kMaxLife) return life;
  return KubeError(
      Reason::kInvalid,
      fmt::format("TokenRequest.authentication.k8s.io \"\" is invalid: "
                  "spec.expirationSeconds: Invalid value: {}: may not specify a duration "
                  "less than 10 minutes or larger than 2^32 seconds",
                  life));
}

// The pod that the token is bound to must be the one that is meant, and use the account.
Status AddBoundPod(ApiContext& context, const ResourceRequest& request, const Json& reference,
                   Json& claims) {
  if (reference.empty()) return base::OkStatus();
  const std::string name = String(reference, {"name"});
  if (String(reference, {"kind"}) != "Pod") {
    return KubeError(Reason::kBadRequest, "cannot bind token to an object of this kind: only Pod");
  }
  StoreLookup lookup(context.store);
  const auto pod = lookup.Get(api::kinds::kPod, request.ns, name);
  if (!pod.ok()) {
    return pod.status().code() == StatusCode::kNotFound ? NotFoundError(api::kinds::kPod, name)
                                                        : pod.status();
  }
  const std::string uid = String(*pod, {"metadata", "uid"});
  const std::string asked = String(reference, {"uid"});
  if (!asked.empty() && asked != uid) {
    return ConflictError(
        api::kinds::kPod, name,
        fmt::format("the UID in the bound object reference ({}) does not match the UID in "
                    "record. The object might have been deleted and then recreated",
                    asked));
  }
  if (String(*pod, {"spec", "serviceAccountName"}) != request.name) {
    return KubeError(Reason::kBadRequest,
                     fmt::format("cannot bind token for serviceaccount \"{}\" to pod running with "
                                 "different serviceaccount name.",
                                 request.name));
  }
  claims["kubernetes.io"]["pod"] = {{"name", name}, {"uid", uid}};
  const std::string node = String(*pod, {"spec", "nodeName"});
  if (!node.empty()) claims["kubernetes.io"]["node"] = {{"name", node}};
  return base::OkStatus();
}

}  // namespace

TokenIssuer::TokenIssuer(KeyPtr key) : key_(std::move(key)) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  if (size > 0)
    key_id_ = base::Sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
}

base::StatusOr<TokenIssuer> TokenIssuer::Load(const std::string& key_pem) {
  ASSIGN_OR_RETURN(KeyPtr key, ParseKey(key_pem));
  return TokenIssuer(std::move(key));
}

base::StatusOr<std::string> TokenIssuer::Sign(const Json& claims) const {
  const Json header = {{"alg", "ES256"}, {"kid", key_id_}, {"typ", "JWT"}};
  const std::string text = base::EncodeBase64Url(base::json::Dump(header)) + "." +
                           base::EncodeBase64Url(base::json::Dump(claims));
  const std::unique_ptr<EVP_MD_CTX, OpenSslDeleter<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) != 1) {
    return OpenSslError("sign a token");
  }
  std::vector<unsigned char> der(size);
  if (EVP_DigestSign(context.get(), der.data(), &size, bytes, text.size()) != 1) {
    return OpenSslError("sign a token");
  }
  der.resize(size);
  ASSIGN_OR_RETURN(const std::string raw, RawSignature(der));
  return text + "." + base::EncodeBase64Url(raw);
}

void TokenIssuer::Issue(ApiContext& context, const ResourceRequest& request) const {
  const auto issue = [&]() -> Status {
    ASSIGN_OR_RETURN(Json body,
                     DecodeBody(request, api::SchemaOf("authentication.k8s.io/v1", "TokenRequest"),
                                "TokenRequest"));
    if (!body.is_object()) return KubeError(Reason::kBadRequest, "the body must be a TokenRequest");
    StoreLookup lookup(context.store);
    const auto account = lookup.Get(request.info(), request.ns, request.name);
    if (!account.ok()) {
      return account.status().code() == StatusCode::kNotFound
                 ? NotFoundError(request.info(), request.name)
                 : account.status();
    }
    const Json spec = base::json::Map(body, {"spec"});
    ASSIGN_OR_RETURN(const int64_t life, LifeOf(spec));
    Json audiences = Array(spec, {"audiences"});
    if (audiences.empty()) audiences.push_back(std::string(kIssuer));
    const auto now = context.clock.Now();
    const int64_t seconds = std::chrono::system_clock::to_time_t(now);
    Json claims = {{"iss", std::string(kIssuer)},
                   {"sub", fmt::format("system:serviceaccount:{}:{}", request.ns, request.name)},
                   {"aud", audiences},
                   {"iat", seconds},
                   {"nbf", seconds},
                   {"exp", seconds + life},
                   {"jti", base::NewUuid()},
                   {"kubernetes.io",
                    {{"namespace", request.ns},
                     {"serviceaccount",
                      {{"name", request.name}, {"uid", String(*account, {"metadata", "uid"})}}}}}};
    RETURN_IF_ERROR(
        AddBoundPod(context, request, base::json::Map(spec, {"boundObjectRef"}), claims));
    ASSIGN_OR_RETURN(const std::string token, Sign(claims));
    body["apiVersion"] = "authentication.k8s.io/v1";
    body["kind"] = "TokenRequest";
    body["metadata"] = {{"name", request.name}, {"namespace", request.ns}};
    body["spec"] = spec;
    body["spec"]["audiences"] = audiences;
    body["spec"]["expirationSeconds"] = life;
    body["status"] = {{"token", token},
                      {"expirationTimestamp", api::FormatTime(now + std::chrono::seconds(life))}};
    ReplyObject(*request.exchange, 201, base::json::Dump(body));
    return base::OkStatus();
  };
  if (const Status status = issue(); !status.ok()) ReplyError(*request.exchange, status);
}

}  // namespace berth::apiserver
