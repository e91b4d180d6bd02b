#include "apiserver/access/certificates.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "apiserver/access/revocations.h"
#include "base/base64.h"
#include "base/files/private_mode.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"

namespace berth::apiserver {

using base::Error;
using base::Status;
using base::StatusCode;

namespace {

using std::chrono::hours;
constexpr auto kDay = hours(24);
constexpr auto kAuthorityLife = 3650 * kDay;
constexpr auto kCertificateLife = 365 * kDay;
constexpr auto kRenewBefore = 60 * kDay;
// From this long before the end of an earlier authority on, the server's certificate is not of it.
constexpr auto kLeaveBefore = 7 * kDay;
// A certificate is valid from this long before it is made, because a client whose clock is slow
// must accept it.
constexpr auto kBackdate = hours(1);

struct Identity {
  std::string common_name;
  std::string organization;
  std::string alternative_names;  // "DNS:localhost,IP:127.0.0.1"
  bool authority = false;
  bool server = false;
};

struct Pair {
  CertificatePtr certificate;
  KeyPtr key;
  std::string certificate_pem;
  std::string key_pem;
};

struct Authority {
  Pair pair;
  std::vector<CertificatePtr> earlier;  // authorities that have not ended, the latest first
  std::string certificates_pem;         // of all of them
};

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  for (const char* c = name; *c != '\0'; ++c) {
    if (!std::isalnum(static_cast<unsigned char>(*c)) && *c != '-' && *c != '.') return "localhost";
  }
  return name[0] != '\0' ? name : "localhost";
}

Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr)
    return OpenSslError(fmt::format("make the certificate extension '{}'", value));
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return added == 1 ? base::OkStatus() : OpenSslError("add a certificate extension");
}

Status AddExtensions(X509* certificate, X509* issuer, const Identity& identity) {
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_subject_key_identifier, "hash"));
  if (identity.authority) {
    RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:TRUE"));
    return AddExtension(certificate, issuer, NID_key_usage,
                        "critical,keyCertSign,cRLSign,digitalSignature");
  }
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_ext_key_usage,
                               identity.server ? "serverAuth" : "clientAuth"));
  if (identity.alternative_names.empty()) return base::OkStatus();
  return AddExtension(certificate, issuer, NID_subject_alt_name, identity.alternative_names);
}

void SetName(X509_NAME* name, const char* field, const std::string& value) {
  if (value.empty()) return;
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

// Makes a certificate that `issuer` signs; without `issuer` it is self-signed.
base::StatusOr<Pair> MakePair(const Identity& identity, const Pair* issuer, base::WallTime now) {
  Pair pair;
  ASSIGN_OR_RETURN(pair.key, MakeKey());
  pair.certificate.reset(X509_new());
  X509* certificate = pair.certificate.get();
  X509_set_version(certificate, 2);
  uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) != 1) {
    return OpenSslError("draw a serial number");
  }
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1);
  const auto life = identity.authority ? kAuthorityLife : kCertificateLife;
  ASN1_TIME_set(X509_getm_notBefore(certificate),
                std::chrono::system_clock::to_time_t(now - kBackdate));
  ASN1_TIME_set(X509_getm_notAfter(certificate), std::chrono::system_clock::to_time_t(now + life));
  X509_NAME* subject = X509_get_subject_name(certificate);
  SetName(subject, "O", identity.organization);
  SetName(subject, "CN", identity.common_name);
  X509* signer = issuer != nullptr ? issuer->certificate.get() : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  X509_set_pubkey(certificate, pair.key.get());
  RETURN_IF_ERROR(AddExtensions(certificate, signer, identity));
  EVP_PKEY* signing_key = issuer != nullptr ? issuer->key.get() : pair.key.get();
  if (X509_sign(certificate, signing_key, EVP_sha256()) <= 0)
    return OpenSslError("sign a certificate");
  ASSIGN_OR_RETURN(pair.certificate_pem, CertificateToPem(certificate));
  ASSIGN_OR_RETURN(pair.key_pem, KeyToPem(pair.key.get()));
  return pair;
}

base::StatusOr<Pair> ReadPair(const std::string& folder, const std::string& name) {
  Pair pair;
  ASSIGN_OR_RETURN(pair.certificate_pem,
                   platform::ReadFile(fmt::format("{}/{}.crt", folder, name)));
  ASSIGN_OR_RETURN(pair.key_pem, platform::ReadFile(fmt::format("{}/{}.key", folder, name)));
  ASSIGN_OR_RETURN(pair.certificate, ParseCertificate(pair.certificate_pem));
  ASSIGN_OR_RETURN(pair.key, ParseKey(pair.key_pem));
  if (X509_check_private_key(pair.certificate.get(), pair.key.get()) != 1) {
    ERR_clear_error();
    return Error(StatusCode::kDataLoss, "the key does not match the certificate");
  }
  return pair;
}

bool EndsBefore(X509* certificate, base::WallTime time) {
  time_t limit = std::chrono::system_clock::to_time_t(time);
  return X509_cmp_time(X509_get0_notAfter(certificate), &limit) < 0;
}

bool EndsSoon(const Pair& pair, base::WallTime now) {
  return EndsBefore(pair.certificate.get(), now + kRenewBefore);
}

bool IsSignedBy(X509* certificate, EVP_PKEY* key) {
  if (X509_verify(certificate, key) == 1) return true;
  ERR_clear_error();
  return false;
}

// The alternative names of a certificate as OpenSSL prints them: "DNS:localhost, IP
// Address:127.0.0.1". They can be compared as text, because each address has one spelling.
std::string AlternativeNames(X509* certificate) {
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  if (at < 0) return {};
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (X509V3_EXT_print(bio.get(), X509_get_ext(certificate, at), 0, 0) != 1) {
    ERR_clear_error();
    return {};
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

// Whether the certificate matches `identity`. The alternative names are compared by making the
// extension again.
bool MatchesIdentity(X509* certificate, const Identity& identity) {
  const CertificatePtr wanted(X509_new());
  X509_NAME* subject = X509_get_subject_name(wanted.get());
  SetName(subject, "O", identity.organization);
  SetName(subject, "CN", identity.common_name);
  if (X509_NAME_cmp(subject, X509_get_subject_name(certificate)) != 0) return false;
  if (!identity.alternative_names.empty() &&
      !AddExtension(wanted.get(), wanted.get(), NID_subject_alt_name, identity.alternative_names)
           .ok()) {
    return false;
  }
  return AlternativeNames(wanted.get()) == AlternativeNames(certificate);
}

using RevokedList = std::vector<RevokedCertificate>;

bool IsUsable(const Pair& pair, const Authority& authority, const Identity& identity,
              const RevokedList& revoked, base::WallTime now) {
  if (EndsSoon(pair, now) || !MatchesIdentity(pair.certificate.get(), identity)) return false;
  const std::string digest = DigestOf(pair.certificate.get());
  if (std::ranges::any_of(revoked, [&](const auto& one) { return one.sha256 == digest; })) {
    return false;
  }
  if (IsSignedBy(pair.certificate.get(), authority.pair.key.get())) return true;
  return identity.server &&
         std::ranges::any_of(authority.earlier, [&](const CertificatePtr& earlier) {
           return !EndsBefore(earlier.get(), now + kLeaveBefore) &&
                  IsSignedBy(pair.certificate.get(), X509_get0_pubkey(earlier.get()));
         });
}

Status WriteCertificates(const std::string& folder, const std::string& name,
                         const std::string& pem) {
  return platform::WriteDurably<"apiserver.certificate">(fmt::format("{}/{}.crt", folder, name),
                                                         pem, 0600);
}

Status WriteKey(const std::string& folder, const std::string& name, const std::string& pem) {
  return platform::WriteDurably<"apiserver.key">(fmt::format("{}/{}.key", folder, name), pem, 0600);
}

// Writes the key first. After a crash between the two writes, the certificate is made again,
// because it does not match its key.
Status WritePair(const std::string& folder, const std::string& name, const Pair& pair) {
  RETURN_IF_ERROR(WriteKey(folder, name, pair.key_pem));
  return WriteCertificates(folder, name, pair.certificate_pem);
}

// Whether a file may be made again after this error of its reading: it is missing or damaged. Any
// other error may pass, and a new authority or key would make every certificate or token invalid.
bool MayReplace(const Status& reading) {
  return reading.code() == StatusCode::kNotFound || reading.code() == StatusCode::kDataLoss;
}

// Warns that a pair is made again if its files are damaged. Returns an error after which the files
// must stay.
Status CheckReading(const Status& reading, const std::string& folder, const std::string& name) {
  if (reading.ok() || reading.code() == StatusCode::kNotFound) return base::OkStatus();
  if (!MayReplace(reading)) return reading;
  LOG_WARNING("api: '{}/{}.crt' and its key are made again: {}", folder, name,
              base::Message(reading));
  return base::OkStatus();
}

// Reads the authority, whose certificate in ca.crt is the one that matches ca.key. Those behind it
// are earlier ones. Those before it are of renewals that a crash interrupted.
base::StatusOr<Authority> ReadAuthority(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string pem, platform::ReadFile(folder + "/ca.crt"));
  ASSIGN_OR_RETURN(std::string key_pem, platform::ReadFile(folder + "/ca.key"));
  ASSIGN_OR_RETURN(auto certificates, ParseCertificates(pem));
  ASSIGN_OR_RETURN(KeyPtr key, ParseKey(key_pem));
  const auto own = std::ranges::find_if(certificates, [&](const CertificatePtr& one) {
    return X509_check_private_key(one.get(), key.get()) == 1;
  });
  ERR_clear_error();
  if (own == certificates.end()) {
    return Error(StatusCode::kDataLoss, "the key does not match the certificate");
  }
  Authority authority;
  ASSIGN_OR_RETURN(authority.pair.certificate_pem, CertificateToPem(own->get()));
  authority.pair.certificate = std::move(*own);
  authority.pair.key = std::move(key);
  authority.pair.key_pem = std::move(key_pem);
  std::move(std::next(own), certificates.end(), std::back_inserter(authority.earlier));
  return authority;
}

// Reads the authority, or makes a new one beside one that ends soon, or in place of one that is
// missing or damaged. Sets `renewed` if the certificates in ca.crt change.
base::StatusOr<Authority> EnsureAuthority(const std::string& folder, base::WallTime now,
                                          bool& renewed) {
  auto read = ReadAuthority(folder);
  RETURN_IF_ERROR(CheckReading(read.status(), folder, "ca"));
  Authority authority = read.ok() ? *std::move(read) : Authority();
  const bool make = authority.pair.certificate == nullptr || EndsSoon(authority.pair, now);
  if (make) {
    if (authority.pair.certificate != nullptr) {
      authority.earlier.insert(authority.earlier.begin(), std::move(authority.pair.certificate));
    }
    // Each has a name of its own, because whoever trusts two finds the right one by its name.
    const Identity identity{
        .common_name = fmt::format("berth-ca@{}", std::chrono::system_clock::to_time_t(now)),
        .authority = true};
    ASSIGN_OR_RETURN(authority.pair, MakePair(identity, nullptr, now));
  }
  const size_t ended = std::erase_if(
      authority.earlier, [&](const CertificatePtr& one) { return EndsBefore(one.get(), now); });
  authority.certificates_pem = authority.pair.certificate_pem;
  for (const CertificatePtr& one : authority.earlier) {
    ASSIGN_OR_RETURN(const std::string pem, CertificateToPem(one.get()));
    authority.certificates_pem += pem;
  }
  if (!make && ended == 0) return authority;
  // The key comes last: until then the earlier authority goes on (ReadAuthority). The new one is
  // not used before it is durable, because every client would have to get the next one.
  RETURN_IF_ERROR(WriteCertificates(folder, "ca", authority.certificates_pem));
  if (make) RETURN_IF_ERROR(WriteKey(folder, "ca", authority.pair.key_pem));
  renewed = true;
  return authority;
}

// Reads the pair of `name`, or makes it again if it is missing, damaged or revoked, ends soon, or
// does not match. Sets `renewed` if the pair is made. Other errors of the reading are returned, and
// the files stay.
base::StatusOr<Pair> EnsurePair(const std::string& folder, const std::string& name,
                                const Identity& identity, const Authority& authority,
                                const RevokedList& revoked, base::WallTime now, bool& renewed) {
  auto pair = ReadPair(folder, name);
  if (pair.ok() && IsUsable(*pair, authority, identity, revoked, now)) return pair;
  RETURN_IF_ERROR(CheckReading(pair.status(), folder, name));
  ASSIGN_OR_RETURN(Pair made, MakePair(identity, &authority.pair, now));
  const Status written = WritePair(folder, name, made);
  // A full disk must not keep the server from starting, because people delete by it what fills the
  // disk. Without its file the pair is made again at the next start.
  if (written.code() == StatusCode::kResourceExhausted) {
    LOG_ERROR("api: uses a certificate that is not stored: {}", base::Message(written));
  } else {
    RETURN_IF_ERROR(written);
  }
  renewed = true;
  return made;
}

base::StatusOr<std::string> EnsureTokenKey(const std::string& folder) {
  const std::string path = folder + "/sa.key";
  auto pem = platform::ReadFile(path);
  if (pem.ok() && ParseKey(*pem).ok()) return pem;
  if (!pem.ok() && !MayReplace(pem.status())) return pem;
  if (pem.ok()) {
    LOG_WARNING("api: '{}' is damaged and is made again; earlier tokens are not valid", path);
  }
  ASSIGN_OR_RETURN(const KeyPtr key, MakeKey());
  ASSIGN_OR_RETURN(std::string made, KeyToPem(key.get()));
  RETURN_IF_ERROR(platform::WriteDurably<"apiserver.secret_file">(path, made, 0600));
  return made;
}

// The names and addresses under which the server is reached.
std::string ServerNames(const std::string& listen_address) {
  std::string names = fmt::format(
      "DNS:localhost,DNS:{},DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
      "IP:127.0.0.1,IP:::1",
      HostName());
  boost::system::error_code not_an_address;
  boost::asio::ip::make_address(listen_address, not_an_address);
  if (!not_an_address && listen_address != "127.0.0.1" && listen_address != "::1") {
    names += ",IP:" + listen_address;
  }
  return names;
}

}  // namespace

base::StatusOr<Certificates> EnsureCertificates(const CertificateOptions& options,
                                                base::WallTime now) {
  const std::string& folder = options.folder;
  RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  // The temporary file of an interrupted write may hold a key, so it must not stay.
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> present, platform::ListFolder(folder));
  for (const std::string& name : present) {
    RETURN_IF_ERROR(base::TightenModeIfThere(fmt::format("{}/{}", folder, name)));
  }
  // A damaged list, or one that lacks entries, makes no certificate new: the server refuses all of
  // them then (revocations.h).
  const RevokedList revoked =
      options.revocation_file.empty()
          ? RevokedList()
          : ReadRevocations({.list = options.revocation_file, .authority_folder = folder})
                .value_or(RevokedList());
  Certificates out;
  ASSIGN_OR_RETURN(const Authority authority, EnsureAuthority(folder, now, out.renewed));
  ASSIGN_OR_RETURN(const Pair server,
                   EnsurePair(folder, "server",
                              {.common_name = "berth-api",
                               .alternative_names = ServerNames(options.listen_address),
                               .server = true},
                              authority, revoked, now, out.renewed));
  ASSIGN_OR_RETURN(
      const Pair admin,
      EnsurePair(folder, "admin", {.common_name = "berth-admin", .organization = "system:masters"},
                 authority, revoked, now, out.renewed));
  if (!options.node_name.empty()) {
    ASSIGN_OR_RETURN(const Pair node, EnsurePair(folder, "node",
                                                 {.common_name = "system:node:" + options.node_name,
                                                  .organization = "system:nodes"},
                                                 authority, revoked, now, out.renewed));
    out.node_certificate = node.certificate_pem;
    out.node_key = node.key_pem;
  }
  ASSIGN_OR_RETURN(out.token_key, EnsureTokenKey(folder));
  out.ca_certificate = authority.certificates_pem;
  out.server_certificate = server.certificate_pem;
  out.server_key = server.key_pem;
  out.admin_certificate = admin.certificate_pem;
  out.admin_key = admin.key_pem;
  return out;
}

base::StatusOr<ClientCertificate> DescribeCertificate(std::string_view certificate,
                                                      std::string_view ca_certificate) {
  ASSIGN_OR_RETURN(const auto authorities, ParseCertificates(ca_certificate));
  ASSIGN_OR_RETURN(const CertificatePtr client, ParseCertificate(certificate));
  if (std::ranges::none_of(authorities, [&](const CertificatePtr& one) {
        return IsSignedBy(client.get(), X509_get0_pubkey(one.get()));
      })) {
    return Error(StatusCode::kInvalidArgument, "another authority signed the certificate");
  }
  ClientCertificate described{.sha256 = DigestOf(client.get())};
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(client.get()), NID_commonName, name, sizeof name);
  described.user = name;
  tm end{};
  if (described.sha256.empty() || ASN1_TIME_to_tm(X509_get0_notAfter(client.get()), &end) != 1) {
    return OpenSslError("read the certificate");
  }
  described.expires = std::chrono::system_clock::from_time_t(timegm(&end));
  return described;
}

base::Status WriteKubeconfig(const std::string& path, const std::string& server_url,
                             const std::string& ca_certificate, const KubeconfigUser& user) {
  const std::string text = fmt::format(
      "apiVersion: v1\n"
      "kind: Config\n"
      "clusters:\n"
      "- name: berth\n"
      "  cluster:\n"
      "    server: {}\n"
      "    certificate-authority-data: {}\n"
      "users:\n"
      "- name: \"{}\"\n"
      "  user:\n"
      "    client-certificate-data: {}\n"
      "    client-key-data: {}\n"
      "contexts:\n"
      "- name: berth\n"
      "  context:\n"
      "    cluster: berth\n"
      "    user: \"{}\"\n"
      "    namespace: default\n"
      "current-context: berth\n",
      server_url, base::EncodeBase64(ca_certificate), user.name,
      base::EncodeBase64(user.certificate), base::EncodeBase64(user.key), user.name);
  // An unchanged file is not written, because a start must not need room on the disk.
  if (const auto present = platform::ReadFile(path); present.ok() && *present == text) {
    return base::TightenMode(path);
  }
  // The temp file of an interrupted write may hold the key.
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  return base::Annotate(platform::WriteDurably<"apiserver.kubeconfig">(path, text, 0600),
                        fmt::format("write the kubeconfig '{}'", path));
}

}  // namespace berth::apiserver
