// Owning pointers for OpenSSL's objects, and OpenSSL's errors as a Status.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::apiserver {

template <auto kFree>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;
using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<BIO_free_all>>;

// INTERNAL with the text of OpenSSL's error queue, which is emptied.
base::Status OpenSslError(std::string_view context);

// Parse a private key or a certificate; DATA_LOSS if `pem` is not one in PEM.
base::StatusOr<KeyPtr> ParseKey(std::string_view pem);
base::StatusOr<CertificatePtr> ParseCertificate(std::string_view pem);
// All certificates of a bundle, at least one; DATA_LOSS if it begins with none.
base::StatusOr<std::vector<CertificatePtr>> ParseCertificates(std::string_view pem);
// INTERNAL if OpenSSL cannot encode the object.
base::StatusOr<std::string> KeyToPem(EVP_PKEY* key);
base::StatusOr<std::string> CertificateToPem(X509* certificate);

// Makes a new EC P-256 key.
base::StatusOr<KeyPtr> MakeKey();

}  // namespace berth::apiserver
