#include "apiserver/access/token_signer.h"

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>

#include "base/base64.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Json;
using base::StatusCode;
using base::json::String;

namespace {

constexpr size_t kCoordinate = 32;  // bytes of r and of s, of x and of y on P-256
// Longer texts are refused. Real tokens are short, because they hold only names and audiences.
constexpr size_t kMaxToken = 16 * 1024;

using SignaturePtr = std::unique_ptr<ECDSA_SIG, OpenSslDeleter<ECDSA_SIG_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, OpenSslDeleter<EVP_MD_CTX_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, OpenSslDeleter<BN_free>>;

const unsigned char* ToBytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Converts an ECDSA signature. A JWT has r followed by s, and OpenSSL has both in DER.
base::StatusOr<std::string> ToRawSignature(const std::vector<unsigned char>& der) {
  const unsigned char* at = der.data();
  const SignaturePtr signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  if (!signature) return OpenSslError("decode a signature");
  std::string raw(2 * kCoordinate, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, kCoordinate);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + kCoordinate, kCoordinate);
  return raw;
}

std::vector<unsigned char> ToDerSignature(std::string_view raw) {
  const SignaturePtr signature(ECDSA_SIG_new());
  NumberPtr r(BN_bin2bn(ToBytes(raw), kCoordinate, nullptr));
  NumberPtr s(BN_bin2bn(ToBytes(raw.substr(kCoordinate)), kCoordinate, nullptr));
  if (!signature || !r || !s || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return {};
  // Both belong to the signature now.
  static_cast<void>(r.release());
  static_cast<void>(s.release());
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::vector<unsigned char> out(der, der + std::max(size, 0));
  OPENSSL_free(der);
  return out;
}

bool IsSignatureValid(EVP_PKEY* key, std::string_view text, std::string_view raw) {
  const std::vector<unsigned char> der = ToDerSignature(raw);
  const DigestPtr context(EVP_MD_CTX_new());
  const bool fits =
      !der.empty() &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), der.data(), der.size(), ToBytes(text), text.size()) == 1;
  ERR_clear_error();
  return fits;
}

base::StatusOr<std::string> ReadCoordinate(EVP_PKEY* key, const char* name) {
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &number) != 1) return OpenSslError("read a public key");
  const NumberPtr owner(number);
  std::string bytes(kCoordinate, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), kCoordinate);
  return base::EncodeBase64Url(bytes);
}

}  // namespace

TokenSigner::TokenSigner(KeyPtr key) : key_(std::move(key)) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  if (size > 0)
    key_id_ = base::Sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
}

base::StatusOr<TokenSigner> TokenSigner::Load(const std::string& key_pem) {
  ASSIGN_OR_RETURN(KeyPtr key, ParseKey(key_pem));
  return TokenSigner(std::move(key));
}

base::StatusOr<std::string> TokenSigner::Sign(const Json& claims) const {
  const Json header = {{"alg", "ES256"}, {"kid", key_id_}, {"typ", "JWT"}};
  const std::string text = base::EncodeBase64Url(base::json::Dump(header)) + "." +
                           base::EncodeBase64Url(base::json::Dump(claims));
  const DigestPtr context(EVP_MD_CTX_new());
  size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, ToBytes(text), text.size()) != 1) {
    return OpenSslError("sign a token");
  }
  std::vector<unsigned char> der(size);
  if (EVP_DigestSign(context.get(), der.data(), &size, ToBytes(text), text.size()) != 1) {
    return OpenSslError("sign a token");
  }
  der.resize(size);
  ASSIGN_OR_RETURN(const std::string raw, ToRawSignature(der));
  return text + "." + base::EncodeBase64Url(raw);
}

base::StatusOr<Json> TokenSigner::Verify(std::string_view token) const {
  const auto refuse = [](std::string_view why) {
    return base::Error(StatusCode::kUnauthenticated, "invalid bearer token: {}", why);
  };
  const size_t first = token.find('.');
  const size_t last = token.rfind('.');
  if (token.size() > kMaxToken || first == last ||
      token.substr(first + 1, last - first - 1).find('.') != std::string_view::npos) {
    return refuse("it is no JSON Web Token");
  }
  const auto header = base::DecodeBase64Url(token.substr(0, first));
  const auto body = base::DecodeBase64Url(token.substr(first + 1, last - first - 1));
  const auto raw = base::DecodeBase64Url(token.substr(last + 1));
  if (!header || !body || !raw || raw->size() != 2 * kCoordinate) {
    return refuse("it is no JSON Web Token");
  }
  const Json head = base::json::Parse(*header).value_or(Json());
  // Only ES256 is accepted; above all "none" must be refused.
  if (String(head, {"alg"}) != "ES256" || String(head, {"kid"}) != key_id_) {
    return refuse("another key signed it");
  }
  if (!IsSignatureValid(key_.get(), token.substr(0, last), *raw)) {
    return refuse("its signature is not valid");
  }
  auto claims = base::json::Parse(*body);
  if (!claims.ok() || String(*claims, {"iss"}) != kTokenIssuer) {
    return refuse("another issuer made it");
  }
  return claims;
}

base::StatusOr<std::string> TokenSigner::PublicKeysJson() const {
  ASSIGN_OR_RETURN(const std::string x, ReadCoordinate(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X));
  ASSIGN_OR_RETURN(const std::string y, ReadCoordinate(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y));
  const Json key = {{"use", "sig"},   {"kty", "EC"}, {"kid", key_id_}, {"crv", "P-256"},
                    {"alg", "ES256"}, {"x", x},      {"y", y}};
  return base::json::Dump(Json{{"keys", Json::array({key})}});
}

}  // namespace berth::apiserver
