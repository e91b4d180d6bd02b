// Leader election by a Lease, as in client-go, so that a process with client-go can take over the
// lease from this code, and this code from such a process.
//
//   [candidate] ── lease free, expired or ours: PUT with our name ──▶ [leader] ── PUT each retry
//        ▲                                                              │          period
//        └── work ended, queues and copies of it gone ◀── [losing] ◀────┘ not renewed for the
//                                                                        renew deadline, or taken
//
// The clock decides who leads, not the API's last answer: leading() becomes false at the renew
// deadline, which is before another candidate may take the lease, even while a renewal hangs. Code
// that acts as leader calls it before each act (GuardedClient; controllers/driver_connection). The
// clock is CLOCK_BOOTTIME, which counts the time in which the machine slept, so that a leader whose
// machine slept too long has lost its lease.
//
// Only create, get and update are used, because the sidecars' roles grant no other verb on Leases.
//
// Each write puts the annotation storage.berth.dev/lineage on the lease: the renewTime that it
// wrote and the id of the lineage, that is of holders with this code that followed each other
// without another program between them. client-go keeps annotations and changes the renewTime, so a
// lease whose two times differ was held by another program, and its next holder begins a new
// lineage.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "api/object.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "kube/client.h"

namespace berth::kube {

using BootTime = std::chrono::nanoseconds;  // since the machine started, sleep included
// Reads CLOCK_BOOTTIME.
BootTime BootClockNow();

struct LeaderElectionOptions {
  std::string ns;
  std::string lease;     // its name
  std::string identity;  // of this candidate: spec.holderIdentity
  api::Labels labels;    // of the lease
  std::chrono::milliseconds lease_duration{15000};
  std::chrono::milliseconds renew_deadline{10000};
  std::chrono::milliseconds retry_period{5000};
  // Releases the lease at the end, when no work runs any more, so that the next leader does not
  // have to wait until the lease expires.
  bool release = true;
  std::function<BootTime()> now = BootClockNow;
};

// INVALID_ARGUMENT for names that a Lease cannot have, and for durations that could lead to two
// leaders.
Status CheckLeaderElection(const LeaderElectionOptions& options);

// The lease of one candidate. RunLeaderElection repeats AcquireOrRenew. One thread calls
// AcquireOrRenew and ReleaseLease; any thread may call the rest.
class LeaderElection {
 public:
  // `client` and `clock` are borrowed and must outlive this object. The client's requests should
  // end well before the renew deadline, and should not wait for other requests.
  LeaderElection(Client& client, const base::Clock& clock, LeaderElectionOptions options);

  // Acquires or renews the lease. OK: this candidate leads. FAILED_PRECONDITION: another candidate
  // leads. Other errors come from the API; a leader whose renewal failed still leads until the
  // renew deadline.
  Status AcquireOrRenew() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the leadership. If this candidate holds the lease, writes that the lease has no holder.
  Status ReleaseLease() ABSL_LOCKS_EXCLUDED(mutex_);

  bool leading() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The time at which leading() becomes false, unless the lease is renewed.
  BootTime leading_until() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The id of the lineage in which this candidate holds the lease, or held it last; "" before that.
  std::string lineage() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns how long to wait before the next AcquireOrRenew. `failed`: the last one failed.
  std::chrono::milliseconds ChooseDelay(bool failed) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if no AcquireOrRenew has ended for longer than the lease duration and
  // `tolerance`, because the election itself hangs then.
  bool healthy(std::chrono::milliseconds tolerance) const ABSL_LOCKS_EXCLUDED(mutex_);

  const LeaderElectionOptions& options() const { return options_; }

 private:
  // `began` is the time from which the renew deadline counts.
  Status AcquireOrRenewAt(BootTime began);
  Status CreateLease(BootTime began);
  Status WriteLease(Json lease, BootTime began);
  // Continues the lineage that `lease` has, or begins one. Call it with the lease as it was read.
  void JoinLineage(const Json& lease) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes that `lease` is written in this candidate's lineage at its renewTime.
  void MarkLineage(Json& lease) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes when the lease of another candidate expires.
  void ObserveLease(const Json& lease, BootTime now);
  void SetLeadingUntil(BootTime until) ABSL_LOCKS_EXCLUDED(mutex_);

  Client& client_;
  const base::Clock& clock_;
  const LeaderElectionOptions options_;
  Json held_;      // the lease as this candidate last wrote it; null: it must be read first
  Json observed_;  // the last spec that was seen; observed_at_ is the time
  mutable base::Mutex mutex_;
  BootTime observed_at_ ABSL_GUARDED_BY(mutex_){0};
  BootTime expires_ ABSL_GUARDED_BY(mutex_){0};  // when another's lease expires, by options_.now
  BootTime leading_until_ ABSL_GUARDED_BY(mutex_){0};
  BootTime tried_at_ ABSL_GUARDED_BY(mutex_){0};
  std::string lineage_ ABSL_GUARDED_BY(mutex_);
};

// Tries to lead until `stop` is requested. While this candidate leads, `lead` runs on its own
// thread. Its token is triggered when the lease is lost or `stop` is requested, and `lead` must
// return only when none of its work runs any more. Only then does a new election begin, or is the
// lease released.
void RunLeaderElection(LeaderElection& election, const std::stop_token& stop,
                       const std::function<void(std::stop_token lost)>& lead);

}  // namespace berth::kube
