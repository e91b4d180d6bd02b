#include "apiserver/access/tls.h"

#include <openssl/ssl.h>

#include "apiserver/access/revocations.h"

namespace berth::apiserver {
namespace {

std::string EntryText(const X509_NAME_ENTRY* entry) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
  if (size < 0) return {};
  std::string text(reinterpret_cast<const char*>(utf8), static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return text;
}

}  // namespace

base::StatusOr<http::SslContextPtr> MakeServerContext(const Certificates& certificates) {
  http::SslContextPtr context = http::MakeTlsContext();
  if (!context) return OpenSslError("make a TLS context");
  SSL_CTX* ctx = context.get();
  ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(certificates.server_key));
  ASSIGN_OR_RETURN(const CertificatePtr certificate,
                   ParseCertificate(certificates.server_certificate));
  ASSIGN_OR_RETURN(const auto authorities, ParseCertificates(certificates.ca_certificate));
  if (SSL_CTX_use_certificate(ctx, certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(ctx, key.get()) != 1) {
    return OpenSslError("use the server's certificate");
  }
  for (const CertificatePtr& authority : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), authority.get());
    SSL_CTX_add_client_CA(ctx, authority.get());
  }
  // A certificate of another authority gets a 401, which a person can read, instead of a TLS alert.
  // OpenSSL keeps the verify result for PeerUser.
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  return context;
}

std::shared_ptr<const http::User> PeerUser(SSL* ssl) {
  const CertificatePtr certificate(SSL_get1_peer_certificate(ssl));
  if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return nullptr;
  tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) return nullptr;
  const std::string digest = DigestOf(certificate.get());
  if (digest.empty()) return nullptr;
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  auto user = std::make_shared<http::User>();
  user->valid_until = std::chrono::system_clock::from_time_t(timegm(&end));
  user->extra.push_back(
      {std::string(kCredentialId), {fmt::format("{}{}", kCertificateId, digest)}});
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    const int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    if (nid == NID_commonName) user->name = EntryText(entry);
    if (nid == NID_organizationName) user->groups.push_back(EntryText(entry));
  }
  return user->name.empty() ? nullptr : user;
}

}  // namespace berth::apiserver
