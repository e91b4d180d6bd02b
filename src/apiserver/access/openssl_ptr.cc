#include "apiserver/access/openssl_ptr.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace berth::apiserver {

using base::Error;
using base::StatusCode;

base::Status OpenSslError(std::string_view context) {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0)
    ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return Error(StatusCode::kInternal, "{}: {}", context, text);
}

base::StatusOr<KeyPtr> ParseKey(std::string_view pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key) return key;
  ERR_clear_error();
  return Error(StatusCode::kDataLoss, "not a private key in PEM");
}

base::StatusOr<CertificatePtr> ParseCertificate(std::string_view pem) {
  ASSIGN_OR_RETURN(auto certificates, ParseCertificates(pem));
  return std::move(certificates.front());
}

base::StatusOr<std::vector<CertificatePtr>> ParseCertificates(std::string_view pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<CertificatePtr> certificates;
  while (CertificatePtr one{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(one));
  }
  ERR_clear_error();
  if (!certificates.empty()) return certificates;
  return Error(StatusCode::kDataLoss, "not a certificate in PEM");
}

namespace {

std::string ReadContent(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace

base::StatusOr<std::string> KeyToPem(EVP_PKEY* key) {
  // Plain memory is enough, because the key also stands in a file.
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("encode a private key");
  }
  return ReadContent(bio.get());
}

base::StatusOr<std::string> CertificateToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return OpenSslError("encode a certificate");
  return ReadContent(bio.get());
}

base::StatusOr<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return OpenSslError("make a P-256 key");
  return key;
}

}  // namespace berth::apiserver
