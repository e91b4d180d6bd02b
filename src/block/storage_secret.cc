#include "block/storage_secret.h"

#include "base/log.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kKeptFor{10};

}  // namespace

base::StatusOr<StorageSecret::Values> StorageSecret::Read(Age age) {
  if (source_.name.empty()) return Values();
  {
    base::MutexLock lock(mutex_);
    const bool is_recent = steady_clock::now() - read_at_ < kKeptFor;
    if (!values_.empty() && (is_recent || age == Age::kAny)) return values_;
  }
  if (!read_) return Error(StatusCode::kFailedPrecondition, "this program reads no secrets");
  auto values = read_(source_.ns, source_.name);
  switch (values.status().code()) {
    case StatusCode::kOk:
      break;
    case StatusCode::kNotFound:
      return Error(StatusCode::kFailedPrecondition, "secret {}, which {} names, does not exist",
                   Quote(Describe()), source_.member);
    case StatusCode::kPermissionDenied: {
      // An agent in Berth's own API may read the Secret as long as it has a volume of the storage,
      // and still has to free what it held afterwards.
      base::MutexLock lock(mutex_);
      if (!values_.empty()) return values_;
      return Error(StatusCode::kFailedPrecondition,
                   "this program may not read secret {}, which {} names: see "
                   "deploy/block-agent/rbac.yaml",
                   Quote(Describe()), source_.member);
    }
    case StatusCode::kInvalidArgument:
      return Error(StatusCode::kFailedPrecondition, "{}", base::Message(values.status()));
    default: {
      base::MutexLock lock(mutex_);
      if (!values_.empty()) return values_;
      return base::Annotate(values.status(), fmt::format("read secret {}", Quote(Describe())));
    }
  }
  RETURN_IF_ERROR(check_(*values, Describe()));
  base::MutexLock lock(mutex_);
  values_ = *values;
  read_at_ = steady_clock::now();
  return *std::move(values);
}

void StorageSecret::Forget() {
  base::MutexLock lock(mutex_);
  read_at_ = {};
}

}  // namespace berth::block
