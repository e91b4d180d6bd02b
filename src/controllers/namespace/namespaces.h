// Begins and ends namespaces (in Kubernetes: the namespace, service-account and root-CA
// controllers).
//
//   [Active] ── ServiceAccount "default" and ConfigMap "kube-root-ca.crt" made, and made again
//      │ deleted
//      ▼
//   [Terminating] ── all content of all kinds that the API serves is deleted, pods first
//      │ ▲ │
//      │ └─┘ something is left: conditions say what; again when some of it is gone, or in a while
//      ▼ nothing is left: finalizer "kubernetes" off
//   gone
//
// Each pass lists every kind, because only the API knows which objects are left. The end of a pod
// or a claim, which takes time, queues the namespace again at once; other objects are checked again
// within seconds.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/namespace/content.h"

namespace berth::controllers::namespaces {

struct Options {
  // The API's certificate authority in PEM, for pods that talk to it; empty: not published.
  std::string root_ca;
  // The pause between two passes while content is left: the first pause, and the longest.
  std::chrono::milliseconds look_again_start = std::chrono::milliseconds(200);
  std::chrono::milliseconds look_again_max = std::chrono::seconds(15);
};

class Namespaces : public Controller {
 public:
  explicit Namespaces(Context context, Options options = {});
  ~Namespaces() override;

  std::string_view name() const override { return "namespace"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;

  void AddHandlers();
  Outcome Sync(const std::string& name);

  base::Status EnsureServiceAccount(const std::string& ns);
  base::Status EnsureRootCa(const std::string& ns);

  // termination.cc
  Outcome Terminate(const api::Namespace& ns);
  base::StatusOr<api::Namespace> WriteConditions(const api::Namespace& ns, const Content& content,
                                                 const std::string& discovery_failure);
  // Removes the finalizer "kubernetes" from spec.finalizers.
  base::Status Finalize(const api::Namespace& ns);
  // The pause before the next pass over a namespace that is not empty.
  std::chrono::milliseconds LookAgainAfter(const api::Namespace& ns) const;
  void AddIfTerminating(const std::string& name);

  const Context context_;
  const Options options_;
  kube::Informer<api::Namespace>& namespaces_;
  kube::Informer<api::ServiceAccount>& accounts_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  // Only the ConfigMaps "kube-root-ca.crt"; nullptr: none is published.
  std::unique_ptr<kube::Informer<api::ConfigMap>> root_cas_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::namespaces
