#include "kube/leader_election.h"

#include <condition_variable>
#include <ctime>
#include <random>
#include <thread>

#include "api/kind_info.h"
#include "api/names.h"
#include "api/time.h"
#include "base/ids.h"
#include "base/log.h"

namespace berth::kube {

using base::Error;
using base::MutexLock;
using base::StatusCode;
using std::chrono::milliseconds;

namespace {

const api::KindInfo& kLease = api::kinds::kLease;
// A renewal is repeated sooner after a failure than after a success.
constexpr milliseconds kFailedRetry{2000};
// The annotation of the lineage: "RENEWTIME ID".
constexpr std::string_view kLineage = "storage.berth.dev/lineage";

std::string HolderOf(const Json& lease) {
  return base::json::String(lease, {"spec", "holderIdentity"});
}

std::string RenewTimeOf(const Json& lease) {
  return base::json::String(lease, {"spec", "renewTime"});
}

// Adds a random part to `period`, so that candidates do not all come at once.
milliseconds AddJitter(milliseconds period) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return period +
         milliseconds(std::uniform_int_distribution<int64_t>(0, period.count() / 5)(random));
}

}  // namespace

BootTime BootClockNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Status CheckLeaderElection(const LeaderElectionOptions& options) {
  for (const auto& [field, name] :
       {std::pair{"namespace", &options.ns}, std::pair{"name", &options.lease}}) {
    if (const Status valid = api::CheckPathSegment(*name); name->empty() || !valid.ok()) {
      return Error(StatusCode::kInvalidArgument, "leader election: {} cannot be the {} of a lease",
                   base::Quote(*name), field);
    }
  }
  if (options.identity.empty()) {
    return Error(StatusCode::kInvalidArgument, "leader election: the identity is empty");
  }
  // As in client-go, a renewal with its jitter must fit in before the deadline.
  if (options.lease_duration <= options.renew_deadline) {
    return Error(StatusCode::kInvalidArgument,
                 "leader election: the lease duration must be longer than the renew deadline");
  }
  if (options.retry_period < milliseconds(1) ||
      options.renew_deadline * 5 <= options.retry_period * 6) {
    return Error(StatusCode::kInvalidArgument,
                 "leader election: the renew deadline must be longer than 1.2 times the retry "
                 "period, which must be positive");
  }
  if (options.lease_duration < std::chrono::seconds(1)) {
    return Error(StatusCode::kInvalidArgument,
                 "leader election: the lease duration must be at least one second");
  }
  return base::OkStatus();
}

LeaderElection::LeaderElection(Client& client, const base::Clock& clock,
                               LeaderElectionOptions options)
    : client_(client), clock_(clock), options_(std::move(options)) {
  MutexLock lock(mutex_);
  tried_at_ = options_.now();
}

bool LeaderElection::leading() const {
  MutexLock lock(mutex_);
  return options_.now() < leading_until_;
}

BootTime LeaderElection::leading_until() const {
  MutexLock lock(mutex_);
  return leading_until_;
}

bool LeaderElection::healthy(milliseconds tolerance) const {
  MutexLock lock(mutex_);
  return options_.now() - tried_at_ <= options_.lease_duration + tolerance;
}

milliseconds LeaderElection::ChooseDelay(bool failed) const {
  MutexLock lock(mutex_);
  const BootTime now = options_.now();
  const auto until = [&](BootTime time) {
    return std::max(std::chrono::ceil<milliseconds>(time - now), milliseconds(0));
  };
  if (now < leading_until_) {
    const auto period =
        failed ? std::min(options_.retry_period, kFailedRetry) : options_.retry_period;
    return std::min(period, until(leading_until_));
  }
  // The next attempt should come soon after the other's lease expires, but not from all candidates
  // at the same moment.
  const milliseconds period = AddJitter(options_.retry_period);
  return now < expires_ ? std::min(period, until(expires_) + AddJitter(milliseconds(10))) : period;
}

void LeaderElection::SetLeadingUntil(BootTime until) {
  MutexLock lock(mutex_);
  leading_until_ = until;
}

void LeaderElection::ObserveLease(const Json& lease, BootTime now) {
  const Json& spec = base::json::Map(lease, {"spec"});
  if (spec == observed_) return;
  observed_ = spec;
  // The expiry is counted by our own clock from the moment at which we saw the change, because the
  // clocks of two machines differ.
  const auto lasts = std::chrono::seconds(base::json::Int(spec, {"leaseDurationSeconds"}));
  MutexLock lock(mutex_);
  observed_at_ = now;
  expires_ = HolderOf(lease).empty() ? now : now + lasts;
}

std::string LeaderElection::lineage() const {
  MutexLock lock(mutex_);
  return lineage_;
}

void LeaderElection::JoinLineage(const Json& lease) {
  const std::string mark = base::json::String(lease, {"metadata", "annotations", kLineage});
  const size_t space = mark.find(' ');
  const bool unbroken = space != mark.npos && mark.substr(0, space) == RenewTimeOf(lease);
  MutexLock lock(mutex_);
  lineage_ = unbroken ? mark.substr(space + 1) : base::NewUuid();
}

void LeaderElection::MarkLineage(Json& lease) const {
  base::json::Set(lease, {"metadata", "annotations", kLineage},
                  fmt::format("{} {}", RenewTimeOf(lease), lineage()));
}

Status LeaderElection::AcquireOrRenew() {
  const Status tried = AcquireOrRenewAt(options_.now());
  MutexLock lock(mutex_);
  tried_at_ = options_.now();
  return tried;
}

Status LeaderElection::AcquireOrRenewAt(BootTime began) {
  if (!held_.is_null()) {
    const Status renewed = WriteLease(held_, began);
    if (renewed.code() != StatusCode::kAborted && renewed.code() != StatusCode::kNotFound) {
      return renewed;
    }
    held_ = nullptr;  // another candidate wrote the lease, or the answer to a write was lost
  }
  StatusOr<Json> read = client_.Get(kLease, options_.ns, options_.lease);
  if (read.status().code() == StatusCode::kNotFound) return CreateLease(began);
  RETURN_IF_ERROR(read);
  ObserveLease(*read, options_.now());
  const std::string holder = HolderOf(*read);
  if (holder != options_.identity && !holder.empty()) {
    SetLeadingUntil(BootTime(0));
    MutexLock lock(mutex_);
    if (options_.now() < expires_) {
      return Error(StatusCode::kFailedPrecondition, "lease '{}/{}' is held by {}", options_.ns,
                   options_.lease, base::Quote(holder));
    }
  }
  JoinLineage(*read);
  return WriteLease(*std::move(read), began);
}

Status LeaderElection::CreateLease(BootTime began) {
  const std::string now = api::FormatMicroTime(clock_.Now());
  Json lease = {{"apiVersion", kLease.api_version()},
                {"kind", kLease.kind},
                {"metadata", {{"name", options_.lease}, {"namespace", options_.ns}}},
                {"spec",
                 {{"holderIdentity", options_.identity},
                  {"leaseDurationSeconds",
                   std::chrono::floor<std::chrono::seconds>(options_.lease_duration).count()},
                  {"acquireTime", now},
                  {"renewTime", now},
                  {"leaseTransitions", 0}}}};
  for (const auto& [key, value] : options_.labels) lease["metadata"]["labels"][key] = value;
  JoinLineage(Json());
  MarkLineage(lease);
  ASSIGN_OR_RETURN(held_, client_.Create(kLease, options_.ns, lease));
  SetLeadingUntil(began + options_.renew_deadline);
  return base::OkStatus();
}

Status LeaderElection::WriteLease(Json lease, BootTime began) {
  const std::string now = api::FormatMicroTime(clock_.Now());
  const bool ours = HolderOf(lease) == options_.identity;
  Json& spec = lease["spec"];
  if (!ours) {
    spec["leaseTransitions"] = base::json::Int(spec, {"leaseTransitions"}) + 1;
    spec["acquireTime"] = now;
  }
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] =
      std::chrono::floor<std::chrono::seconds>(options_.lease_duration).count();
  spec["renewTime"] = now;
  for (const auto& [key, value] : options_.labels) {
    base::json::Set(lease, {"metadata", "labels", key}, value);
  }
  MarkLineage(lease);
  ASSIGN_OR_RETURN(held_, client_.Update(kLease, lease, ""));
  observed_ = base::json::Map(held_, {"spec"});
  SetLeadingUntil(began + options_.renew_deadline);
  return base::OkStatus();
}

Status LeaderElection::ReleaseLease() {
  SetLeadingUntil(BootTime(0));
  if (held_.is_null()) return base::OkStatus();
  Json lease = std::exchange(held_, nullptr);
  const std::string now = api::FormatMicroTime(clock_.Now());
  // An empty holder, as in client-go, lets the next holder take the lease at once.
  lease["spec"]["holderIdentity"] = "";
  lease["spec"]["leaseDurationSeconds"] = 1;
  lease["spec"]["renewTime"] = now;
  lease["spec"]["acquireTime"] = now;
  MarkLineage(lease);
  return client_.Update(kLease, lease, "").status();
}

void RunLeaderElection(LeaderElection& election, const std::stop_token& stop,
                       const std::function<void(std::stop_token lost)>& lead) {
  const std::string name = election.options().ns + "/" + election.options().lease;
  std::mutex mutex;
  std::condition_variable_any changed;
  bool ended = false;
  std::jthread term;
  Status last;
  // Waits for `time`, or until a term ends or `stop` is requested. While `stopping` it does not end
  // for `stop`, because the lease is renewed until the term has ended.
  const auto wait = [&](milliseconds time, bool stopping) {
    std::unique_lock lock(mutex);
    if (stopping) {
      changed.wait_for(lock, time, [&] { return ended; });
    } else {
      changed.wait_for(lock, stop, time, [&] { return ended; });
    }
  };
  while (true) {
    const bool stopping = stop.stop_requested();
    if (stopping && !term.joinable()) break;
    const Status tried = election.AcquireOrRenew();
    if (tried.ok() && !term.joinable() && !stopping) {
      LOG_INFO("lease '{}' is ours: working", name);
      ended = false;
      term = std::jthread([&](const std::stop_token& lost) {
        lead(lost);
        const std::lock_guard lock(mutex);
        ended = true;
        changed.notify_all();
      });
    } else if (!tried.ok() && tried.code() != last.code()) {
      LOG_WARNING("lease '{}': {}", name, base::ToString(tried));
    }
    last = tried;
    if (term.joinable() && stopping) term.request_stop();
    if (term.joinable() && !election.leading()) {
      LOG_WARNING("lease '{}' is lost: pausing until it is ours again", name);
      term.request_stop();
      term.join();
      term = std::jthread();
      ended = false;
      LOG_INFO("lease '{}': what ran has ended", name);
      continue;
    }
    wait(election.ChooseDelay(!tried.ok()), stopping);
    const std::unique_lock lock(mutex);
    if (ended && term.joinable() && stop.stop_requested()) {
      term.join();
      term = std::jthread();
    }
  }
  if (election.options().release) {
    if (const Status released = election.ReleaseLease(); !released.ok()) {
      LOG_WARNING("lease '{}': release: {}", name, base::ToString(released));
    }
  }
}

}  // namespace berth::kube
