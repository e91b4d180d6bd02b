#include "apiserver/access/revocations.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "api/time.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::apiserver {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::String;

std::string DigestOf(X509* certificate) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  unsigned size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &size) != 1) return "";
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

namespace {

constexpr int kVersion = 1;  // of the list and of its record
constexpr size_t kMaxListBytes = 16 << 20;

std::string RecordPath(const RevocationFiles& files) {
  return files.authority_folder + "/revocations.json";
}

// The digests of the authorities that are trusted, first that of the present one.
base::StatusOr<std::vector<std::string>> ReadAuthorityDigests(const RevocationFiles& files) {
  ASSIGN_OR_RETURN(const std::string pem, platform::ReadFile(files.authority_folder + "/ca.crt"));
  ASSIGN_OR_RETURN(const auto authorities, ParseCertificates(pem));
  std::vector<std::string> digests;
  for (const CertificatePtr& one : authorities) digests.push_back(DigestOf(one.get()));
  return digests;
}

// Says why a file could not be parsed, or that a parsed one lacks something.
std::string_view ExplainDamage(const Status& parsed, std::string_view lack) {
  return parsed.ok() ? lack : base::Message(parsed);
}

// Returns how many entries the list of the trusted authorities has had. A record counts also if
// their certificates cannot be read, because a running server still uses them.
base::StatusOr<size_t> ReadRecord(const RevocationFiles& files) {
  if (files.authority_folder.empty()) return 0;
  const std::string path = RecordPath(files);
  const auto text = platform::ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return 0;
  RETURN_IF_ERROR(text);
  const auto parsed = platform::ParseRecordOrUnversioned(*text, kVersion);
  const Json* count = parsed.ok() ? base::json::Find(*parsed, {"certificates"}) : nullptr;
  const std::string named = parsed.ok() ? String(*parsed, {"authority"}) : "";
  if (count == nullptr || !count->is_number_unsigned() || named.empty()) {
    return Error(
        StatusCode::kDataLoss,
        "'{}', which records how many certificates are revoked, is damaged: {}; if '{}' has "
        "all of them, remove the record, and it is made again",
        path, ExplainDamage(parsed.status(), "it lacks a member"), files.list);
  }
  const auto authorities = ReadAuthorityDigests(files);
  if (authorities.ok() && std::ranges::find(*authorities, named) == authorities->end()) return 0;
  return count->get<size_t>();
}

// Records that the list has `count` entries, unless the record says so already.
Status RaiseRecord(const RevocationFiles& files, size_t count) {
  if (files.authority_folder.empty()) return base::OkStatus();
  ASSIGN_OR_RETURN(const size_t recorded, ReadRecord(files));
  if (recorded >= count) return base::OkStatus();
  ASSIGN_OR_RETURN(const auto authorities, ReadAuthorityDigests(files));
  const Json record = {
      {"version", kVersion}, {"authority", authorities.front()}, {"certificates", count}};
  return platform::WriteDurably<"apiserver.revocation_record">(
      RecordPath(files), base::json::Dump(record) + "\n", 0600);
}

base::StatusOr<base::UniqueFd> LockList(const RevocationFiles& files) {
  auto lock = platform::LockFile(files.list + ".lock");
  if (lock.status().code() == StatusCode::kFailedPrecondition) {
    return Error(StatusCode::kFailedPrecondition,
                 "another process is revoking a certificate; try again");
  }
  return lock;
}

base::StatusOr<std::vector<RevokedCertificate>> ReadList(const std::string& path) {
  std::vector<RevokedCertificate> revoked;
  const auto text = platform::ReadFile(path, kMaxListBytes);
  if (text.status().code() == StatusCode::kNotFound) return revoked;
  RETURN_IF_ERROR(text);
  const auto parsed =
      platform::ParseRecordOrUnversioned(*text, kVersion, {.max_bytes = kMaxListBytes});
  const Json* list = parsed.ok() ? base::json::Find(*parsed, {"certificates"}) : nullptr;
  if (list == nullptr || !list->is_array()) {
    return Error(StatusCode::kDataLoss, "the list of revoked certificates '{}' is damaged: {}",
                 path, ExplainDamage(parsed.status(), "it has no certificates"));
  }
  for (const Json& entry : *list) {
    RevokedCertificate one{.sha256 = String(entry, {"sha256"}), .user = String(entry, {"user"})};
    if (one.sha256.size() != 64) {
      return Error(StatusCode::kDataLoss,
                   "the list of revoked certificates '{}' is damaged: an entry has no digest",
                   path);
    }
    ASSIGN_OR_RETURN(one.revoked, api::ParseTime(String(entry, {"revoked"})));
    revoked.push_back(std::move(one));
  }
  return revoked;
}

// Adds to an error of the list how it is mended.
Status AddRemedy(const RevocationFiles& files, const Status& status) {
  if (status.code() != StatusCode::kDataLoss || files.authority_folder.empty()) return status;
  return Error(StatusCode::kDataLoss,
               "{}; put the list back from a backup, or, if there is none, remove '{}', "
               "'{}/ca.crt' and '{}/ca.key' and start Berth again, because a new authority ends "
               "every earlier certificate",
               base::Message(status), files.list, files.authority_folder, files.authority_folder);
}

}  // namespace

base::StatusOr<std::vector<RevokedCertificate>> ReadRevocations(const RevocationFiles& files) {
  auto revoked = ReadList(files.list);
  if (!revoked.ok()) return AddRemedy(files, revoked.status());
  ASSIGN_OR_RETURN(const size_t recorded, ReadRecord(files));
  if (revoked->size() >= recorded) return revoked;
  return AddRemedy(files, Error(StatusCode::kDataLoss,
                                "the list of revoked certificates '{}' has lost entries: it has {} "
                                "of {}",
                                files.list, revoked->size(), recorded));
}

Status AddRevocation(const RevocationFiles& files, const RevokedCertificate& certificate) {
  ASSIGN_OR_RETURN(const base::UniqueFd lock, LockList(files));
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(files.list));
  ASSIGN_OR_RETURN(std::vector<RevokedCertificate> revoked, ReadRevocations(files));
  if (std::ranges::find(revoked, certificate.sha256, &RevokedCertificate::sha256) ==
      revoked.end()) {
    revoked.push_back(certificate);
    Json list = Json::array();
    for (const RevokedCertificate& one : revoked) {
      list.push_back(
          {{"sha256", one.sha256}, {"user", one.user}, {"revoked", api::FormatTime(one.revoked)}});
    }
    RETURN_IF_ERROR(platform::WriteDurably<"apiserver.revocations">(
        files.list,
        base::json::Dump(Json{{"version", kVersion}, {"certificates", std::move(list)}}) + "\n",
        0600));
  }
  // The record comes second: after a crash between the two writes the list has more entries than
  // the record, which refuses nobody.
  return RaiseRecord(files, revoked.size());
}

bool Revocations::TakeChange() {
  size_t count = 0;
  {
    base::MutexLock lock(mutex_);
    RereadIfChanged();
    if (!std::exchange(changed_, false)) return false;
    count = revoked_.size();
  }
  // AddRevocation records the number as well, but no record exists yet for a list that an older
  // version wrote.
  const auto lock = LockList(files_);
  const Status recorded = lock.ok() ? RaiseRecord(files_, count) : lock.status();
  if (!recorded.ok() && recorded.code() != StatusCode::kFailedPrecondition) {
    LOG_ERROR("api: cannot record how many certificates are revoked: {}", base::Message(recorded));
  }
  return true;
}

void Revocations::RereadIfChanged() {
  if (files_.list.empty()) return;
  struct stat now{};
  if (stat(files_.list.c_str(), &now) != 0) {
    const int error = errno;
    now = {};
    if (error != ENOENT) {
      if (readable_) {
        LOG_ERROR("api: every client certificate is refused: {}",
                  base::Message(platform::ErrnoError(
                      error,
                      fmt::format("look for the list of revoked certificates '{}'", files_.list))));
      }
      readable_ = false;
      seen_ = {};
      return;
    }
  }
  const bool same = looked_ && readable_ && now.st_ino == seen_.st_ino &&
                    now.st_size == seen_.st_size && now.st_ctim.tv_sec == seen_.st_ctim.tv_sec &&
                    now.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec;
  if (same) return;
  auto read = ReadRevocations(files_);
  if (!read.ok()) {
    if (readable_) {
      LOG_ERROR("api: every client certificate is refused: {}", base::Message(read.status()));
    }
    readable_ = false;
    return;
  }
  readable_ = true;
  // A server that starts without revoked certificates makes no certificate of its own again.
  changed_ |= looked_ || !read->empty();
  looked_ = true;
  seen_ = now;
  revoked_ = *std::move(read);
}

bool Revocations::IsRevoked(const http::User& user) {
  std::string_view digest;
  for (const auto& [key, values] : user.extra) {
    if (key != kCredentialId || values.empty() || !values[0].starts_with(kCertificateId)) continue;
    digest = std::string_view(values[0]).substr(kCertificateId.size());
  }
  if (digest.empty()) return false;  // a process on the UNIX socket
  base::MutexLock lock(mutex_);
  RereadIfChanged();
  return !readable_ || std::ranges::any_of(revoked_, [&](const RevokedCertificate& one) {
    return one.sha256 == digest;
  });
}

}  // namespace berth::apiserver
