#include "apiserver/access/static_tokens.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <unistd.h>

#include "api/time.h"
#include "apiserver/access/openssl_ptr.h"
#include "base/base64.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::apiserver {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::json::Array;
using base::json::String;

namespace {

constexpr std::string_view kPrefix = "berth-";
constexpr size_t kIdSize = 10;
constexpr size_t kSecretBytes = 32;

base::StatusOr<StaticToken> DecodeToken(const Json& entry) {
  StaticToken token{.id = String(entry, {"id"}),
                    .hash = String(entry, {"hash"}),
                    .user = String(entry, {"user"})};
  for (const Json& group : Array(entry, {"groups"})) {
    if (group.is_string()) token.groups.push_back(group.get<std::string>());
  }
  ASSIGN_OR_RETURN(token.created, api::ParseTime(String(entry, {"created"})));
  if (const std::string expires = String(entry, {"expires"}); !expires.empty()) {
    ASSIGN_OR_RETURN(token.expires, api::ParseTime(expires));
  }
  if (token.id.empty() || token.hash.size() != 64 || token.user.empty()) {
    return Error(StatusCode::kDataLoss, "an entry lacks its id, hash or user");
  }
  return token;
}

Status WriteTokens(const std::string& path, const std::vector<StaticToken>& tokens) {
  Json list = Json::array();
  for (const StaticToken& token : tokens) {
    Json entry = {{"id", token.id},
                  {"hash", token.hash},
                  {"user", token.user},
                  {"groups", token.groups},
                  {"created", api::FormatTime(token.created)}};
    if (token.expires) entry["expires"] = api::FormatTime(*token.expires);
    list.push_back(std::move(entry));
  }
  return platform::WriteDurably<"apiserver.tokens">(
      path, base::json::Dump(Json{{"tokens", std::move(list)}}) + "\n", 0600);
}

// Reads, changes and writes the file. A lock admits one process at a time.
template <typename ChangeList>
Status EditTokens(const std::string& path, ChangeList change) {
  base::StatusOr<base::UniqueFd> lock = platform::LockFile(path + ".lock");
  if (lock.status().code() == StatusCode::kFailedPrecondition) {
    return Error(StatusCode::kFailedPrecondition,
                 "another process is changing the tokens; try again");
  }
  RETURN_IF_ERROR(lock);
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  ASSIGN_OR_RETURN(std::vector<StaticToken> tokens, ReadStaticTokens(path));
  RETURN_IF_ERROR(change(tokens));
  return WriteTokens(path, tokens);
}

}  // namespace

base::StatusOr<std::vector<StaticToken>> ReadStaticTokens(const std::string& path) {
  std::vector<StaticToken> tokens;
  const auto text = platform::ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return tokens;
  RETURN_IF_ERROR(text);
  const std::string damaged = fmt::format("the token file '{}' is damaged", path);
  const auto parsed = base::json::Parse(*text);
  if (!parsed.ok() || !parsed->is_object()) {
    return Error(StatusCode::kDataLoss, "{}: it is not a JSON object", damaged);
  }
  for (const Json& entry : Array(*parsed, {"tokens"})) {
    auto token = DecodeToken(entry);
    if (!token.ok()) {
      return Error(StatusCode::kDataLoss, "{}: {}", damaged, base::Message(token.status()));
    }
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

base::StatusOr<std::string> AddStaticToken(const std::string& path, StaticToken token) {
  std::string secret(kSecretBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), kSecretBytes) != 1) {
    return OpenSslError("draw a token");
  }
  token.id = base::RandomSuffix(kIdSize);
  std::string text = fmt::format("{}{}.{}", kPrefix, token.id, base::EncodeBase64Url(secret));
  token.hash = base::Sha256Hex(text);
  RETURN_IF_ERROR(EditTokens(path, [&](std::vector<StaticToken>& tokens) {
    tokens.push_back(std::move(token));
    return base::OkStatus();
  }));
  return text;
}

Status RemoveStaticToken(const std::string& path, std::string_view id) {
  return EditTokens(path, [&](std::vector<StaticToken>& tokens) -> Status {
    const size_t removed =
        std::erase_if(tokens, [&](const StaticToken& token) { return token.id == id; });
    return removed > 0 ? base::OkStatus()
                       : Error(StatusCode::kNotFound, "there is no token '{}'", id);
  });
}

bool StaticTokens::HasTokenForm(std::string_view token) {
  return token.starts_with(kPrefix) && token.size() > kPrefix.size() + kIdSize &&
         token[kPrefix.size() + kIdSize] == '.';
}

void StaticTokens::RereadIfChanged() {
  struct stat now{};
  if (path_.empty() || stat(path_.c_str(), &now) != 0) {
    changed_ |= !tokens_.empty();
    tokens_.clear();
    seen_ = {};
    return;
  }
  // The file is compared by ctime and not mtime, because ctime also changes with the mode.
  const bool same = now.st_ino == seen_.st_ino && now.st_size == seen_.st_size &&
                    now.st_ctim.tv_sec == seen_.st_ctim.tv_sec &&
                    now.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec;
  if (same) return;
  const auto read = [&]() -> base::StatusOr<std::vector<StaticToken>> {
    if (now.st_uid == geteuid() && (now.st_mode & 077) == 0) return ReadStaticTokens(path_);
    return Error(StatusCode::kPermissionDenied,
                 "others than the owner of the token file {} may read or write it (make it private "
                 "with chmod 600)",
                 base::Quote(path_));
  }();
  if (!read.ok()) {
    changed_ |= !tokens_.empty();
    tokens_.clear();
    if (!std::exchange(refused_, true)) {
      LOG_ERROR("api: accepted no token: {}", base::Message(read.status()));
    }
    return;
  }
  refused_ = false;
  changed_ = true;
  tokens_ = *read;
  seen_ = now;
}

bool StaticTokens::TakeChange() {
  base::MutexLock lock(mutex_);
  RereadIfChanged();
  return std::exchange(changed_, false);
}

base::StatusOr<http::User> StaticTokens::OwnerOf(std::string_view token, base::WallTime now) {
  const std::string_view id = token.substr(kPrefix.size(), kIdSize);
  const std::string hash = base::Sha256Hex(token);
  base::MutexLock lock(mutex_);
  RereadIfChanged();
  for (const StaticToken& one : tokens_) {
    if (one.id != id || CRYPTO_memcmp(one.hash.data(), hash.data(), hash.size()) != 0) continue;
    if (one.expires && *one.expires <= now) {
      return Error(StatusCode::kUnauthenticated, "the token '{}' has expired", id);
    }
    return http::User{.name = one.user, .uid = {}, .groups = one.groups, .extra = {}};
  }
  return Error(StatusCode::kUnauthenticated, "there is no such token");
}

}  // namespace berth::apiserver
