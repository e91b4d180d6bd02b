// Whether a node can be taken for gone: that nothing on it writes any more, as far as the API
// knows.
//
//   the node carries the taint out-of-service          a person says that it is switched off
//   the node has no object, and its Lease stays as it  no kubelet has renewed it for as long as
//     is while the operator looks                      the Lease promises
//
// The Lease is compared with itself over the operator's own time, so that clocks that differ prove
// nothing; one that is absent is a state too. After a restart the time begins anew, and so it does
// when the node was there in between.
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
  // FAILED_PRECONDITION says which proof is missing. Others are the API's.
  base::StatusOr<Proof> ProveGone(const std::string& node) ABSL_LOCKS_EXCLUDED(mutex_);

  // The Node was seen: what was seen of its silence counts no more.
  void NoteThere(const std::string& node) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is no such Node, on the API's own word.
  base::StatusOr<bool> IsAbsent(const std::string& node);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Seen {
    std::string lease;
    Time since;
    // The longest that its Lease, when there was one, had to be left alone for.
    std::chrono::milliseconds promised{0};
  };
  kube::Client& client_;
  const std::chrono::milliseconds silence_;
  base::Mutex mutex_;
  std::map<std::string, Seen> seen_ ABSL_GUARDED_BY(mutex_);  // of nodes without an object
};

}  // namespace berth::controllers::blockoperator
