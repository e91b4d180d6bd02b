// Leader election by a Lease, as client-go does it, so that either may take over from the other.
//
//   [candidate] ── lease free, expired or ours: PUT with our name ──▶ [leader] ── PUT each retry
//        ▲                                                              │          period
//        └── work ended, queues and copies of it gone ◀── [losing] ◀────┘ not renewed for the
//                                                                        renew deadline, or taken
//
// The clock decides who leads, not the API's last answer: leading() becomes false at the renew
// deadline, which is before another may take the lease, even while a renewal hangs. Code that acts
// as leader asks it before each act (GuardedClient; controllers/driver_connection). The clock is
// CLOCK_BOOTTIME, so that a machine that slept has lost its lease.
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
  // Releases the lease at the end, when no work runs any more, so that the next leader need not
  // wait until it expires.
  bool release = true;
  std::function<BootTime()> now = BootClockNow;
};

// INVALID_ARGUMENT for names that a Lease cannot have, and for durations that could lead to two
// leaders.
Status CheckLeaderElection(const LeaderElectionOptions& options);

// A single attempt; Campaign repeats it. One thread calls Try and Release; any thread may call the
// rest.
class LeaderElection {
 public:
  // `client` and `clock` are borrowed. The client's requests should end well within the renew
  // deadline, and should not queue behind other requests.
  LeaderElection(Client& client, const base::Clock& clock, LeaderElectionOptions options);

  // Takes or renews the lease. OK: we lead. FAILED_PRECONDITION: another candidate leads. Else the
  // API's error; a leader whose renewal failed still leads until the renew deadline.
  Status Try() ABSL_LOCKS_EXCLUDED(mutex_);
  // If we hold the lease, writes that nobody does.
  Status Release() ABSL_LOCKS_EXCLUDED(mutex_);

  bool leading() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The time at which leading() becomes false, unless the lease is renewed.
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
  BootTime expires_ ABSL_GUARDED_BY(mutex_){0};  // of another's lease, by our clock
  BootTime leading_until_ ABSL_GUARDED_BY(mutex_){0};
  BootTime tried_at_ ABSL_GUARDED_BY(mutex_){0};
};

// Campaigns until `stop`. While the lease is ours `lead` runs on a thread of its own. Its token is
// triggered when the lease is lost or `stop` comes, and it must return only when none of its work
// runs any more. Only then a new campaign begins or the lease is released.
void Campaign(LeaderElection& election, const std::stop_token& stop,
              const std::function<void(std::stop_token lost)>& lead);

}  // namespace berth::kube
