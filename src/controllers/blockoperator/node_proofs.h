// Proves that a node is gone, which means that nothing on it writes any more, as far as the API
// knows.
//
//   the node carries the taint out-of-service          a person says that it is switched off
//   the node has no object, and its Lease stays as it  no kubelet has renewed it for as long as
//     is while the operator looks                      the Lease promises
//
// The operator measures by its own clock how long the Lease does not change, because the clocks of
// two machines may differ. An absent Lease is a state too. The time begins anew after a restart,
// and when the node was there in between.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::controllers::blockoperator {

class NodeProofs {
 public:
  NodeProofs(kube::Client& client, std::chrono::milliseconds silence)
      : client_(client), silence_(silence) {}

  struct Proof {
    bool out_of_service = false;
    std::string text;  // for people
  };
  // Reads the Node and its Lease. The silence of the Lease is measured from the first call that
  // finds no Node. FAILED_PRECONDITION says which proof is missing. Other errors come from the API.
  base::StatusOr<Proof> ProveGone(const std::string& node) ABSL_LOCKS_EXCLUDED(mutex_);

  // To be called when the Node was seen, because then its earlier silence does not count any more.
  void NotePresence(const std::string& node) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is no such Node, as the API says. Errors come from the API.
  base::StatusOr<bool> IsAbsent(const std::string& node);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Seen {
    std::string lease;
    Time since;
    // The longest spec.leaseDurationSeconds that its Lease had, at most an hour; 0: no Lease.
    std::chrono::milliseconds promised{0};
  };
  kube::Client& client_;
  const std::chrono::milliseconds silence_;
  base::Mutex mutex_;
  std::map<std::string, Seen> seen_ ABSL_GUARDED_BY(mutex_);  // of nodes without an object
};

}  // namespace berth::controllers::blockoperator
