#include "node/drivers/flex_reports.h"

namespace berth::node {

using base::Json;
using base::KeyedWorkers;
using base::MutexLock;
using base::Status;
using base::StatusCode;

namespace {

constexpr char kKey[] = "drivers";

bool IsRemoved(const Status& state) { return state.code() == StatusCode::kFailedPrecondition; }

}  // namespace

FlexReports::FlexReports(kube::Client& client, kube::Informers& informers, std::string node_name,
                         base::Metrics* metrics)
    : client_(client),
      nodes_(informers.Of<api::Node>()),
      node_name_(std::move(node_name)),
      metrics_(metrics),
      writer_({.name = "flex-reports", .workers = 1},
              [this](const std::string&) { return WriteReports(); }) {
  gate_.Open(this);
  // The Node may appear after the first report, may be created again, or may hold the report of an
  // earlier agent.
  nodes_.AddHandler(gate_.Wrap([](FlexReports& self, const auto& change) {
    if (change.key == self.node_name_ && change.after != nullptr) self.writer_.Add(kKey);
  }));
}

FlexReports::~FlexReports() {
  gate_.Close();
  Stop();
}

void FlexReports::CountState(const std::string& driver, const Status& state) const {
  const base::Metrics::Labels labels = {{"driver", driver}};
  metrics_->Set({.name = "berth_flexvolume_driver_ready",
                 .help = "Whether a Flexvolume driver is installed and its init succeeded."},
                labels, state.ok() ? 1 : 0);
  if (state.ok() || state.code() == StatusCode::kNotFound || IsRemoved(state)) return;
  metrics_->Count({.name = "berth_flexvolume_driver_init_failures_total",
                   .help = "How often the init of a Flexvolume driver failed."},
                  labels);
}

void FlexReports::ReportState(const std::string& driver, const Status& state) {
  if (metrics_ != nullptr) CountState(driver, state);
  {
    MutexLock lock(mutex_);
    if (state.code() == StatusCode::kNotFound) {
      drivers_.erase(driver);
    } else {
      drivers_[driver] = {.ready = state.ok(),
                          .removed = IsRemoved(state),
                          .reason = std::string(base::Message(state))};
    }
  }
  writer_.AddNow(kKey);
}

KeyedWorkers::Outcome FlexReports::WriteReports() {
  const auto node = nodes_.Get(node_name_);
  if (node == nullptr) return KeyedWorkers::Outcome::Done();
  std::string wanted;  // empty: no annotation
  {
    MutexLock lock(mutex_);
    if (!drivers_.empty()) wanted = api::WriteFlexReports(drivers_);
  }
  const std::string annotation(api::kFlexDriversAnnotation);
  const bool same =
      node->has_annotation(annotation) == !wanted.empty() && node->annotation(annotation) == wanted;
  if (same) return KeyedWorkers::Outcome::Done();
  const auto written = kube::MergePatch(
      client_, *node,
      {{"metadata",
        {{"uid", node->uid()},
         {"annotations", {{annotation, wanted.empty() ? Json() : Json(wanted)}}}}}});
  if (written.ok()) nodes_.Observe(written->json());
  // The handler is called again when another Node of this name appears.
  if (written.status().code() == StatusCode::kNotFound) return KeyedWorkers::Outcome::Done();
  return KeyedWorkers::Outcome::From(written.status());
}

}  // namespace berth::node
