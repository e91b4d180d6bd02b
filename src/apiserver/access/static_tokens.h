// The tokens of people and tools outside the cluster. A file (0600) holds the hash, the user and
// the end of each token. `berth token` writes the file. The server reads it again whenever it has
// changed, so that new and removed tokens take effect at once.
//
//   berth-ID.SECRET     ID 10 characters; SECRET 256 random bits, base64url
//
//   {"tokens": [{"id", "hash": SHA-256 of the token in hex, "user", "groups": [], "created",
//                "expires" (absent: never)}]}
//
// A hash without salt or stretching suffices: the secret is random, not chosen by a person.
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

// Adds a token to the file and returns the token's text, which is stored nowhere. Several processes
// may do this at once.
base::StatusOr<std::string> AddStaticToken(const std::string& path, StaticToken token);
// NOT_FOUND if there is no such token.
base::Status RemoveStaticToken(const std::string& path, std::string_view id);

// The server's copy of the file. Thread-safe.
class StaticTokens {
 public:
  // `path` may be empty: no tokens.
  explicit StaticTokens(std::string path) : path_(std::move(path)) {}

  // Whether the text has the form of a static token.
  static bool Looks(std::string_view token);
  // The user of the token. UNAUTHENTICATED with the reason if it is not valid.
  base::StatusOr<http::User> OwnerOf(std::string_view token, base::WallTime now);

 private:
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  base::Mutex mutex_;
  struct stat seen_ ABSL_GUARDED_BY(mutex_) {};
  std::vector<StaticToken> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
