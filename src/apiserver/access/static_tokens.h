// The tokens of people and tools outside the cluster: a file (0600) that holds of each token a
// hash, whose it is and when it ends. `berth token` writes it; the server reads it again whenever
// it has changed, so that a token works, and ends, at once.
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

// The file at `path`; none is an empty list. DATA_LOSS for a damaged one.
base::StatusOr<std::vector<StaticToken>> ReadStaticTokens(const std::string& path);

// Adds a token to the file, and returns its text, which is nowhere else. Several processes may
// write at once.
base::StatusOr<std::string> AddStaticToken(const std::string& path, StaticToken token);
// NOT_FOUND if there is no such token.
base::Status RemoveStaticToken(const std::string& path, std::string_view id);

// What the server knows of the file. Thread-safe.
class StaticTokens {
 public:
  // `path` may be empty: no tokens.
  explicit StaticTokens(std::string path) : path_(std::move(path)) {}

  // Whether the text has the form of such a token.
  static bool Looks(std::string_view token);
  // UNAUTHENTICATED says why not.
  base::StatusOr<http::User> OwnerOf(std::string_view token, base::WallTime now);

 private:
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  base::Mutex mutex_;
  struct stat seen_ ABSL_GUARDED_BY(mutex_) {};
  std::vector<StaticToken> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
