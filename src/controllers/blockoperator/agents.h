// Deploys the programs on the nodes. The operator creates the DaemonSets berth-block-agent and
// berth-io-proxy, and the CustomResourceDefinitions, from the manifests of deploy/block-agent and
// deploy/crds, which are part of the program.
//
// The operator maintains a definition or DaemonSet that it made (label
// app.kubernetes.io/managed-by: berth): it creates a deleted one again, and resets changed fields
// that the manifest has. It does not change other fields. A person who wants to keep their own
// DaemonSet gives that label another value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

// The manifests' texts, YAML: a DaemonSet each.
std::span<const std::string_view> AgentManifests();

struct AgentSettings {
  std::string ns;
  std::string image;
  std::string kubelet_folder = "/var/lib/kubelet";
  api::Labels node_selector;
  std::string service_account;           // of all pods; empty: what the manifests name
  std::vector<std::string> agent_flags;  // of `berth block-agent`, besides the manifest's
};

// The DaemonSet that a manifest describes, changed by `settings`. Pure. INVALID_ARGUMENT: the
// manifest is not YAML, or is not one DaemonSet.
base::StatusOr<api::DaemonSet> AgentSet(std::string_view manifest, const AgentSettings& settings);

// Whether `present` has all that `wanted` has. An object may have more members than the wanted one;
// an array must have as many elements, each of which covers the wanted one. Pure.
bool Covers(const base::Json& present, const base::Json& wanted);

class Agents {
 public:
  Agents(const Context& context, const Options& options);
  ~Agents() { Stop(); }

  void Start();
  void Stop() { workers_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Set = api::DaemonSet;

  Outcome Sync();
  base::Status Install();
  base::Status EnsureDaemonSet(const Set& wanted);
  base::StatusOr<AgentSettings> ReadSettings() const;

  const Context context_;
  const AgentOptions options_;
  kube::Informer<Set>* sets_ = nullptr;  // null: the operator creates no DaemonSets
  bool installed_ = false;               // used only by the worker
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
