// What goes onto the nodes: the DaemonSets berth-block-agent and berth-io-proxy, made together with
// the CustomResourceDefinitions, from the manifests of deploy/block-agent that Berth carries.
//
// A definition or DaemonSet that the operator made (label app.kubernetes.io/managed-by: berth) is
// kept as it should be: made again when it is deleted, and brought back when a field that the
// manifest has was changed. Fields that it does not have are let be. Whoever wants to keep a
// DaemonSet of their own gives it another value of that label.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/keyed_workers.h"
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

// The DaemonSet of a manifest as it should be. Pure. INVALID_ARGUMENT: it is none.
base::StatusOr<api::DaemonSet> AgentSet(std::string_view manifest, const AgentSettings& settings);

// Whether `present` has all that `wanted` has: members of objects, elements of arrays. Pure.
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
  base::Status Keep(const Set& wanted);
  base::StatusOr<AgentSettings> Settings() const;

  const Context context_;
  const AgentOptions options_;
  kube::Informer<Set>* sets_ = nullptr;  // null: none are made
  bool installed_ = false;               // of the worker
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
