// How the block operator works.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "block/backend.h"

namespace berth::controllers::blockoperator {

// block::OpenBackend with its parts.
using OpenBackend =
    std::function<base::StatusOr<std::unique_ptr<block::Backend>>(const base::Json& settings)>;

// The DaemonSets, and the kinds that go with them.
struct AgentOptions {
  bool install = true;  // the CustomResourceDefinitions
  bool deploy = true;   // the DaemonSets
  std::string ns;       // where they are
  std::string image;    // of their pods; empty: that of the operator's own pod
  std::string own_pod;  // its name, in `ns`
  std::string kubelet_folder = "/var/lib/kubelet";  // of the nodes
  std::string node_selector;    // "key=value,..." of the nodes that get an agent; empty: all
  std::string service_account;  // of all pods; empty: what the manifests name
  std::vector<std::string> agent_flags;  // of `berth block-agent`, besides the manifest's
};

struct Options {
  OpenBackend open_backend;
  AgentOptions agents;
  int workers = 8;       // claims, volumes, fences and clusters worked on at a time, of each kind
  int max_workers = 32;  // the same while calls of back ends are slow
  int copies_of_namespace = 4;  // at a time, of its claims that begin as a copy of another
  std::chrono::milliseconds copy_pause{5000};  // until a claim above that bound is tried again
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  // How long the deletion of a volume waits without a word for the nodes to unmount it.
  std::chrono::milliseconds unmount_patience{std::chrono::minutes(1)};
  std::chrono::milliseconds unmount_pause{5000};  // until it looks again whether they have
  // How long the deletion or copy of an image lasts before events say how far it is.
  std::chrono::milliseconds progress_patience{5000};
  // How often all fences and clean-ups are checked, in addition to the watches.
  std::chrono::milliseconds scan_interval{std::chrono::hours(24)};
  // How often it is checked whether a cluster's back end answers.
  std::chrono::milliseconds check_interval{std::chrono::minutes(5)};
  // How long a node without an object must be silent until it counts as gone; longer if its Lease
  // says so.
  std::chrono::milliseconds node_silence{std::chrono::seconds(40)};
  // How long a deleted cluster waits for the images of claims that were deleted with it.
  std::chrono::milliseconds image_patience{std::chrono::minutes(5)};
  // How long a deleted cluster waits for a storage that cannot be asked, if no fence is known that
  // it would have to lift.
  std::chrono::milliseconds fence_patience{std::chrono::seconds(10)};
};

}  // namespace berth::controllers::blockoperator
