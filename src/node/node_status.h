// Keeps this node's Node object and Lease: creates the Node if it is missing, keeps its facts and
// its health up to date, and renews the Lease.
//
// Written fields: labels, and the annotation that leaves attaching to the controller;
// status.conditions[Ready], capacity, allocatable, addresses, nodeInfo, daemonEndpoints. All other
// fields are left alone (docs/design.md, rule 1): volume_in_use.h writes volumesInUse, and
// csi_node.h writes the drivers' entries. While the API is unreachable, everything here is delayed,
// and nothing fails. If a controller marks this node as gone or silent (controllers/nodelifecycle),
// the agent corrects that at once. Thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/informers.h"

namespace berth::node {

struct NodeStatusOptions {
  std::string node_name;
  std::string kubelet_folder;  // whose file system is the node's ephemeral storage
  std::string version;         // nodeInfo.kubeletVersion
  int max_pods = 110;
  int port = 0;        // daemonEndpoints.kubeletEndpoint, where logs and exec are served; 0: none
  api::Labels labels;  // besides the well-known ones
  // Like the kubelet's nodeLeaseDurationSeconds, rounded up to whole seconds. The lease is renewed
  // four times within it.
  std::chrono::milliseconds lease_duration{40'000};
  std::chrono::milliseconds status_interval{300'000};
};

class NodeStatus {
 public:
  // The references are borrowed and must outlive this object. Call it before `informers` start,
  // because it adds a handler.
  NodeStatus(NodeStatusOptions options, kube::Client& client, kube::Informers& informers,
             const base::Clock& clock);
  ~NodeStatus() { Stop(); }

  void Start();
  void Stop();
  // Waits until the Node object is known to exist. False: it was not within `timeout`.
  bool WaitRegistered(std::chrono::milliseconds timeout);

  // Sets whether the container runtime can be reached; the node is Ready if it can. `message` says
  // why not; `version` is as "containerd://1.6.20". Returns quickly; a worker writes the status if
  // something has changed.
  void SetRuntime(bool reachable, const std::string& message, const std::string& version);

 private:
  struct Runtime {
    bool known = false;
    bool reachable = false;
    std::string message;
    std::string version;
    bool operator==(const Runtime&) const = default;
  };

  // Whether the status must be written again at once: the Node object is gone (nullptr), or its
  // condition Ready is missing or Unknown, which is true only of a dead node. False until the node
  // is registered.
  bool NeedsCorrection(const api::Node* node);
  base::KeyedWorkers::Outcome WriteStatus();
  base::KeyedWorkers::Outcome RenewLease();
  base::StatusOr<api::Node> EnsureNode();
  base::StatusOr<base::Json> CreateLease();
  int64_t LeaseSeconds() const;
  base::Json MakeNode() const;
  base::Json MakeMetadataPatch(const api::Node& node) const;
  base::Json MakeStatusPatch(const api::Node& node, const Runtime& runtime) const;
  base::Json MakeReadyCondition(const api::Node& node, const Runtime& runtime) const;

  const NodeStatusOptions options_;
  kube::Client& client_;
  kube::Informer<api::Node>& nodes_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  std::string node_uid_ ABSL_GUARDED_BY(mutex_);
  Runtime runtime_ ABSL_GUARDED_BY(mutex_);
  base::Json lease_;     // as last written; used by the lease's worker only
  bool waited_ = false;  // for the runtime's first answer; used by the status worker only
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
