// The Secret by which a back end logs in to its storage. It is read from the API when it is needed,
// and kept in memory for ten seconds, or longer while the API does not answer, so that whoever had
// it can end what it began. It is in no record, no argument and no message.
//
// Thread-safe. FAILED_PRECONDITION: there is no such Secret, or this program may not read it; the
// message names it and the member of the StorageCluster that names it. An error of the check is
// given as it is.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "block/backend.h"

namespace berth::block {

class StorageSecret {
 public:
  using Values = std::map<std::string, std::string>;
  struct Source {
    std::string ns;
    std::string name;    // empty: the storage asks for no secret
    std::string member;  // of the StorageCluster that names it, for messages: "rbd.secretRef"
  };

  // Says what the values lack; it gets the Secret's name for the message.
  using Check = std::function<base::Status(const Values& values, const std::string& secret)>;

  // Values that `check` refuses are not kept, and take the place of no earlier ones.
  StorageSecret(Source source, SecretReader read, Check check)
      : source_(std::move(source)), read_(std::move(read)), check_(std::move(check)) {}

  // Which values that were read before are used without a question to the API.
  enum class Age { kRecent, kAny };
  // The decoded values; empty if the storage asks for no secret.
  base::StatusOr<Values> Read(Age age = Age::kRecent);
  // The next Read asks the API, because the storage refused the values.
  void Forget();
  // "NAMESPACE/NAME", for messages.
  std::string Describe() const { return source_.ns + "/" + source_.name; }

 private:
  const Source source_;
  const SecretReader read_;
  const Check check_;
  base::Mutex mutex_;
  Values values_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point read_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
