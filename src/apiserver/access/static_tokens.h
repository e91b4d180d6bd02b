// The tokens of people and tools outside the cluster. A file (0600) holds the hash, the user and
// the expiry time of each token. `berth token` writes the file. The server reads it again whenever
// it has changed, so new and removed tokens take effect at once. Streams of a removed token end
// within seconds.
//
//   berth-ID.SECRET     ID 10 characters; SECRET 256 random bits, base64url
//
//   {"tokens": [{"id", "hash": SHA-256 of the token in hex, "user", "groups": [], "created",
//                "expires" (absent: never)}]}
//
// A hash without salt or stretching is enough, because the secret is random and not chosen by a
// person.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "http/message.h"

namespace berth::apiserver {

struct StaticToken {
  std::string id;
  std::string hash;
  std::string user;
  std::vector<std::string> groups;
  base::WallTime created;
  std::optional<base::WallTime> expires;
};

// Reads the file at `path`. A missing file is an empty list; DATA_LOSS for a damaged one.
base::StatusOr<std::vector<StaticToken>> ReadStaticTokens(const std::string& path);

// Adds a token to the file and returns the token's text, which is stored nowhere. The `id` and
// `hash` of `token` are chosen here. FAILED_PRECONDITION if another process is changing the file,
// DATA_LOSS for a damaged file.
base::StatusOr<std::string> AddStaticToken(const std::string& path, StaticToken token);
// Removes a token from the file. NOT_FOUND if there is no such token; other errors as
// AddStaticToken.
base::Status RemoveStaticToken(const std::string& path, std::string_view id);

// The server's copy of the file. Thread-safe.
class StaticTokens {
 public:
  // `path` may be empty: no tokens.
  explicit StaticTokens(std::string path) : path_(std::move(path)) {}

  // Whether the text has the form of a static token.
  static bool HasTokenForm(std::string_view token);
  // The user of a token for which HasTokenForm is true. Reads the file if it has changed.
  // UNAUTHENTICATED with the reason if the token is not valid.
  base::StatusOr<http::User> OwnerOf(std::string_view token, base::WallTime now);

  // Reads the file if it has changed, and returns whether it has changed since the last call.
  bool TakeChange();

 private:
  // Reads the file if it has changed. A file that is missing, damaged or not private has no tokens.
  void RereadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  base::Mutex mutex_;
  struct stat seen_ ABSL_GUARDED_BY(mutex_) {};
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // the file was not accepted, and the log says so
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // since TakeChange
  std::vector<StaticToken> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
