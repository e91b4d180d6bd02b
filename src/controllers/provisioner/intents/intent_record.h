// The record of a provisioner's intents (intent.h) that outlives the process: an annotation of a
// Lease of its own, so that no claim is marked and another program can take over at any moment.
//
//   HoldIntent: written before CreateVolume ──▶ [recorded] ── Release: gone with the next write
//
// Callers of HoldIntent who come while a write runs share the next one. A released intent is taken
// off by Flush at the latest.
//
// Only one process writes the Lease at a time, as the leader or as the provisioner of its node. If
// another process wrote it meanwhile, HoldIntent is refused with ABORTED until Load has read it
// again.
//
// Where the record has no namespace, or the role may not write Leases there, nothing is recorded,
// and the log says so once: then a process that is killed may leave a volume that no object names.
//
// Thread-safe. Load, HoldIntent and Flush call the API.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "controllers/provisioner/intents/intent.h"
#include "controllers/provisioner/options.h"
#include "kube/client.h"

namespace berth::controllers::provisioner {

class IntentRecord {
 public:
  // The size of all intents together, because an object's annotations have at most 256 KiB.
  static constexpr size_t kMostBytes = size_t{200} << 10;

  // `client` is borrowed and outlives the record.
  IntentRecord(kube::Client& client, IntentOptions options)
      : client_(client), options_(std::move(options)) {}

  struct Left {
    std::vector<Intent> intents;
    // Another program may have worked for the driver after these intents were recorded.
    bool disputed = false;
  };
  // Reads the Lease `lease`, and returns the intents that this process does not hold yet. They are
  // held from now on. Errors come from the API. A malformed intent is logged, and is lost with the
  // next write.
  base::StatusOr<Left> Load(const std::string& lease) ABSL_LOCKS_EXCLUDED(write_mutex_, mutex_);
  // Whether HoldIntent can be called: the Lease was read, and nobody else has written it since.
  bool loaded() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Records the intent of the claim of that uid in place of an earlier one. OK: it is recorded.
  // ABORTED: call Load first. RESOURCE_EXHAUSTED: the record is full. Other errors come from the
  // API; the earlier intent is held then.
  base::Status HoldIntent(const std::string& uid, const Intent& intent)
      ABSL_LOCKS_EXCLUDED(write_mutex_, mutex_);
  // The intent of the claim of that uid is settled. Returns whether there was one.
  bool Release(const std::string& uid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes the changes that are not written yet, if there are any.
  base::Status Flush() ABSL_LOCKS_EXCLUDED(write_mutex_, mutex_);

 private:
  // Writes the record as it is, unless change `change` is written already.
  base::Status WriteUpTo(int64_t change) ABSL_LOCKS_EXCLUDED(write_mutex_, mutex_);
  // Passes the record's own fault points, because those of the API's writes are also passed by the
  // leader election's.
  base::Status WriteLease(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status WriteText(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status CreateLease(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Reads the Lease after a conflict. ABORTED if another process wrote the record.
  base::Status ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  std::string MakeText() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing is recorded from now on.
  void GiveUp(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  kube::Client& client_;
  const IntentOptions options_;
  const std::string writer_ = base::NewUuid();  // this process, in the record

  base::Mutex write_mutex_;  // held while the Lease is read or written; taken before mutex_
  std::string lease_name_ ABSL_GUARDED_BY(write_mutex_);
  // The Lease as it was read or written last; null: it is not there.
  base::Json lease_ ABSL_GUARDED_BY(write_mutex_);

  mutable base::Mutex mutex_;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;
  bool off_ ABSL_GUARDED_BY(mutex_) = false;                          // nothing is recorded
  std::map<std::string, std::string> texts_ ABSL_GUARDED_BY(mutex_);  // uid → encoded intent
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                          // of texts_
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;                       // of texts_, counted
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;  // the changes up to this one are in the Lease
  // The last write that failed held the changes up to this one.
  int64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
  base::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::provisioner
