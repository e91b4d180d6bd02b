// How volumes are provisioned: the flags of Kubernetes' external-provisioner, under their names.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace berth::controllers::provisioner {

// --node-deployment: each node has a provisioner, which handles the volumes of its own node.
struct NodeDeployment {
  std::string node_name;  // env NODE_NAME; "": one provisioner for all nodes
  // Whether all nodes are known, so that a node that has the driver alone takes claims at once. By
  // default only this node is known (own_node_client.h).
  bool watch_nodes = false;
  bool immediate_binding = true;
  // The longest time that a node waits before its first try to take a claim for which no node is
  // selected. It doubles with each conflict.
  std::chrono::milliseconds base_delay{20000};
  std::chrono::milliseconds max_delay{60000};

  bool enabled() const { return !node_name.empty(); }
};

// Where the provisioner records what it calls CreateVolume for (intents/intent_record.h).
struct IntentOptions {
  std::string ns;  // of the Lease; "": nothing is recorded
  // Intents that were recorded in the same lineage are certainly those of this provisioner's last
  // process, with no other program for the driver in between (LeaderElection::lineage); "": that is
  // never certain.
  std::string lineage;
};

struct Options {
  std::chrono::milliseconds timeout{10000};  // of each RPC
  int workers = 10;                          // --worker-threads; 100 in the Go program
  int cloning_protection_workers = 1;        // --cloning-protection-threads
  std::string volume_name_prefix = "pvc";
  int volume_name_uuid_length = -1;  // of the claim's uid without dashes; -1: the uid as it is
  std::chrono::milliseconds retry_start{1000};  // --retry-interval-start
  std::chrono::milliseconds retry_max{300000};  // --retry-interval-max
  bool strict_topology = false;
  bool immediate_topology = true;
  bool extra_create_metadata = false;
  bool controller_publish_readonly = false;
  bool prevent_volume_mode_conversion = true;
  std::string default_fs_type;
  // --feature-gates=CrossNamespaceVolumeDataSource: a claim may be filled from another namespace if
  // a ReferenceGrant there allows it (reference_grants.h).
  bool cross_namespace_sources = false;
  // How often all snapshots are checked for a finalizer that no claim needs any more; 0: never.
  std::chrono::milliseconds snapshot_orphan_sweep_interval{300000};
  // The attacher of the same driver is a role of this process, too. Volumes that are deleted with
  // their claim are then made with its finalizer (names.h), so that their first attachment does not
  // have to write it.
  bool attacher_beside = false;
  // Called with the class of a claim whose volume the driver has refused: its capacity may be less
  // than what is published.
  std::function<void(const std::string& storage_class)> on_refused = [](const std::string&) {};
  NodeDeployment node_deployment;
  IntentOptions intents;
};

struct CapacityOptions {
  std::string ns;        // of the objects; env NAMESPACE
  std::string pod_name;  // env POD_NAME; needed unless owner_level is negative
  // --capacity-ownerref-level: who owns the objects: 0 the pod, 1 the pod's owner, 2 the owner of
  // that, ...; negative: no owner, or with `node_owns` the Node `node_name`. The objects are
  // deleted with their owner.
  int owner_level = 1;
  bool node_owns = false;
  bool immediate_binding = false;                  // --capacity-for-immediate-binding
  std::chrono::milliseconds poll_interval{60000};  // --capacity-poll-interval
  int workers = 1;                                 // --capacity-threads
  std::chrono::milliseconds timeout{10000};        // of each RPC
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::string node_name;  // of a node deployment: only its storage
};

}  // namespace berth::controllers::provisioner
