// Leader election by a Lease, as client-go does it, so that either may take over from the other.
//
//   [candidate] ── lease free, expired or ours: PUT with our name ──▶ [leader] ── PUT each retry
//        ▲                                                              │          period
//        └── work ended, queues and copies of it gone ◀── [losing] ◀────┘ not renewed for the
//                                                                        renew deadline, or taken
//
// A leader is one by the clock, not by what the API last said: leading() is false from the renew
// deadline on, which is before anybody else may take the lease, even while a renewal hangs. Whoever
// acts as leader asks it before each act (GuardedClient; controllers/driver_connection). The clock
// is CLOCK_BOOTTIME: a machine that slept has lost its lease.
//
// Only create, get and update are used: that is what the sidecars' roles grant on Leases.
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
BootTime BootClockNow();

struct LeaderElectionOptions {
  std::string ns;
  std::string lease;     // its name
  std::string identity;  // who we are: spec.holderIdentity
  api::Labels labels;    // of the lease
  std::chrono::milliseconds lease_duration{15000};
  std::chrono::milliseconds renew_deadline{10000};
  std::chrono::milliseconds retry_period{5000};
  // Let the lease go at the end, when no work runs any more, so that nobody waits for its expiry.
  bool release = true;
  std::function<BootTime()> now = BootClockNow;
};

// INVALID_ARGUMENT for names that no Lease can have and durations that could make two leaders.
Status CheckLeaderElection(const LeaderElectionOptions& options);

// The try of one moment; Campaign repeats it. Try and Release are of one thread, the rest of any.
class LeaderElection {
 public:
  // `client` and `clock` are borrowed. The client's requests should end well within the renew
  // deadline, and not wait behind others'.
  LeaderElection(Client& client, const base::Clock& clock, LeaderElectionOptions options);

  // Takes or renews the lease. OK: we lead. FAILED_PRECONDITION: somebody else does. Else the API's
  // error; a leader whose renewal failed leads on until the renew deadline.
  Status Try() ABSL_LOCKS_EXCLUDED(mutex_);
  // Names nobody as the holder, if it is us.
  Status Release() ABSL_LOCKS_EXCLUDED(mutex_);

  bool leading() const ABSL_LOCKS_EXCLUDED(mutex_);
  // When leading() becomes false, unless the lease is renewed.
  BootTime leading_until() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How long the next Try may wait.
  std::chrono::milliseconds NextTry(bool failed) const ABSL_LOCKS_EXCLUDED(mutex_);
  // False if no Try ended for longer than the lease and `tolerance`: the election itself hangs.
  bool healthy(std::chrono::milliseconds tolerance) const ABSL_LOCKS_EXCLUDED(mutex_);

  const LeaderElectionOptions& options() const { return options_; }

 private:
  Status TryAt(BootTime began);
  Status Create(BootTime began);
  Status Write(Json lease, BootTime began);
  void Notice(const Json& lease, BootTime now);
  void Lead(BootTime until) ABSL_LOCKS_EXCLUDED(mutex_);

  Client& client_;
  const base::Clock& clock_;
  const LeaderElectionOptions options_;
  Json held_;      // the lease as we last wrote it; null: read it first
  Json observed_;  // spec as last seen, and since when
  mutable base::Mutex mutex_;
  BootTime observed_at_ ABSL_GUARDED_BY(mutex_){0};
  BootTime expires_ ABSL_GUARDED_BY(mutex_){0};  // another holder's time, by our clock
  BootTime leading_until_ ABSL_GUARDED_BY(mutex_){0};
  BootTime tried_at_ ABSL_GUARDED_BY(mutex_){0};
};

// Campaigns until `stop`: `lead` runs on a thread of its own while the lease is ours, with a token
// that is triggered when it is lost or `stop` comes; it returns when nothing of its work runs any
// more. Only then a new campaign begins or the lease is released.
void Campaign(LeaderElection& election, const std::stop_token& stop,
              const std::function<void(std::stop_token lost)>& lead);

}  // namespace berth::kube
