// Reports the state of the node's Flexvolume drivers: in an annotation of its Node
// (api/kinds/flex_reports.h), which `berth get drivers` shows, and in metrics. Thread-safe.
#pragma once

#include <map>
#include <string>

#include "api/kinds/flex_reports.h"
#include "api/kinds/kinds.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/handler_gate.h"
#include "kube/informers/informers.h"

namespace berth::node {

class FlexReports {
 public:
  // The references and `metrics` are borrowed. If `metrics` is null, no metrics are kept. Call it
  // before `informers` start.
  FlexReports(kube::Client& client, kube::Informers& informers, std::string node_name,
              base::Metrics* metrics = nullptr);
  ~FlexReports();

  // The callback PluginRegistry::Options::on_state. NOT_FOUND: the driver does not exist any more;
  // FAILED_PRECONDITION: it was removed, and is kept for the volumes that it set up.
  void ReportState(const std::string& driver, const base::Status& state);
  void Start() { writer_.Start(); }
  void Stop() { writer_.Stop(); }

 private:
  void CountState(const std::string& driver, const base::Status& state) const;
  base::KeyedWorkers::Outcome WriteReports();

  kube::Client& client_;
  kube::Informer<api::Node>& nodes_;
  const std::string node_name_;
  base::Metrics* const metrics_;
  base::Mutex mutex_;
  std::map<std::string, api::FlexReport> drivers_ ABSL_GUARDED_BY(mutex_);
  kube::HandlerGate<FlexReports> gate_;
  base::KeyedWorkers writer_;
};

}  // namespace berth::node
