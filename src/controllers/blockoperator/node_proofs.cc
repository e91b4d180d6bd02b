#include "controllers/blockoperator/node_proofs.h"

#include "controllers/well_known_names.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr std::string_view kLeaseNamespace = "kube-node-lease";

}  // namespace

StatusOr<bool> NodeProofs::IsAbsent(const std::string& node) {
  const auto read = kube::Get<api::Node>(client_, "", node);
  if (read.status().code() == StatusCode::kNotFound) return true;
  RETURN_IF_ERROR(read);
  return false;
}

void NodeProofs::NotePresence(const std::string& node) {
  base::MutexLock lock(mutex_);
  seen_.erase(node);
}

StatusOr<NodeProofs::Proof> NodeProofs::ProveGone(const std::string& name) {
  const auto node = kube::Get<api::Node>(client_, "", name);
  if (node.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(node);
    NotePresence(name);
    if (node->has_taint(kOutOfServiceTaint)) {
      return Proof{.out_of_service = true,
                   .text = fmt::format("node '{}' carries the taint {}", name, kOutOfServiceTaint)};
    }
    return Error(StatusCode::kFailedPrecondition,
                 "node '{}' may still use it; if it is switched off for good, say so by the taint "
                 "{}, or delete the Node",
                 name, kOutOfServiceTaint);
  }
  const auto lease = kube::Get<api::Lease>(client_, kLeaseNamespace, name);
  std::string state = "absent";
  milliseconds promised{0};
  if (lease.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(lease);
    state = lease->uid() + " " + lease->renew_time();
    promised = seconds(std::min<int64_t>(lease->Int({"spec", "leaseDurationSeconds"}), 3600));
  }
  const auto now = steady_clock::now();
  base::MutexLock lock(mutex_);
  Seen& seen = seen_[name];
  if (seen.lease != state) {
    seen.lease = state;
    seen.since = now;
  }
  seen.promised = std::max(seen.promised, promised);
  const milliseconds needed = std::max(silence_, seen.promised);
  const auto silent = std::chrono::duration_cast<milliseconds>(now - seen.since);
  if (silent >= needed) {
    return Proof{.text = fmt::format("node '{}' has no object, and its Lease has not been renewed "
                                     "for {} s",
                                     name, std::chrono::duration_cast<seconds>(silent).count())};
  }
  return Error(StatusCode::kFailedPrecondition,
               "node '{}' has no object, but its Lease counts for {} s more", name,
               std::chrono::ceil<seconds>(needed - silent).count());
}

}  // namespace berth::controllers::blockoperator
