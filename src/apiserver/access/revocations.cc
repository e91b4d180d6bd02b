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

base::StatusOr<std::vector<RevokedCertificate>> ReadRevocations(const std::string& path) {
  std::vector<RevokedCertificate> revoked;
  const auto text = platform::ReadFile(path, 16 << 20);
  if (text.status().code() == StatusCode::kNotFound) return revoked;
  RETURN_IF_ERROR(text);
  const auto parsed = base::json::Parse(*text);
  const Json* list =
      parsed.ok() && parsed->is_object() ? base::json::Find(*parsed, {"certificates"}) : nullptr;
  if (list == nullptr || !list->is_array()) {
    return Error(StatusCode::kDataLoss, "the list of revoked certificates '{}' is damaged", path);
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

Status AddRevocation(const std::string& path, const RevokedCertificate& certificate) {
  const auto lock = platform::LockFile(path + ".lock");
  if (lock.status().code() == StatusCode::kFailedPrecondition) {
    return Error(StatusCode::kFailedPrecondition,
                 "another process is revoking a certificate; try again");
  }
  RETURN_IF_ERROR(lock);
  ASSIGN_OR_RETURN(std::vector<RevokedCertificate> revoked, ReadRevocations(path));
  for (const RevokedCertificate& one : revoked) {
    if (one.sha256 == certificate.sha256) return base::OkStatus();
  }
  revoked.push_back(certificate);
  Json list = Json::array();
  for (const RevokedCertificate& one : revoked) {
    list.push_back(
        {{"sha256", one.sha256}, {"user", one.user}, {"revoked", api::FormatTime(one.revoked)}});
  }
  return platform::WriteDurably<"apiserver.revocations">(
      path, base::json::Dump(Json{{"certificates", std::move(list)}}) + "\n", 0600);
}

bool Revocations::TakeChange() {
  base::MutexLock lock(mutex_);
  RereadIfChanged();
  return std::exchange(changed_, false);
}

void Revocations::RereadIfChanged() {
  if (path_.empty()) return;
  struct stat now{};
  if (stat(path_.c_str(), &now) != 0) {
    const int error = errno;
    now = {};
    if (error != ENOENT) {
      if (readable_) {
        LOG_ERROR(
            "api: every client certificate is refused: {}",
            base::Message(platform::ErrnoError(
                error, fmt::format("look for the list of revoked certificates '{}'", path_))));
      }
      readable_ = false;
      seen_ = {};
      return;
    }
  }
  const bool same = readable_ && now.st_ino == seen_.st_ino && now.st_size == seen_.st_size &&
                    now.st_ctim.tv_sec == seen_.st_ctim.tv_sec &&
                    now.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec;
  if (same) return;
  auto read = ReadRevocations(path_);
  if (!read.ok()) {
    if (readable_) {
      LOG_ERROR("api: every client certificate is refused: {}", base::Message(read.status()));
    }
    readable_ = false;
    return;
  }
  readable_ = true;
  changed_ = true;
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
