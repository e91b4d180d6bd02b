// Writes a set's status (daemon_sets.h).
#include "controllers/daemonset/daemon_sets.h"
#include "controllers/writes.h"

namespace berth::controllers::daemonset {

using base::Json;
using base::Status;

Status DaemonSets::WriteStatus(const Set& set, const Nodes& nodes, const std::string& hash) {
  int64_t desired = 0;
  int64_t current = 0;
  int64_t misscheduled = 0;
  int64_t ready = 0;
  int64_t available = 0;
  int64_t updated = 0;
  for (const auto& [name, node] : nodes) {
    if (!node.fit.run) {
      if (!node.pods.empty()) ++misscheduled;
      continue;
    }
    ++desired;
    if (node.pods.empty()) continue;
    ++current;
    // If a node has two pods, the older one counts.
    const DaemonPod& one = node.pods.front();
    if (one.pod->ready()) ++ready;
    if (one.available) ++available;
    if (one.pod->label(kRevisionHash) == hash) ++updated;
  }
  Json status = {
      {"currentNumberScheduled", current},      {"numberMisscheduled", misscheduled},
      {"desiredNumberScheduled", desired},      {"numberReady", ready},
      {"observedGeneration", set.generation()}, {"updatedNumberScheduled", updated},
      {"numberAvailable", available},           {"numberUnavailable", desired - available}};
  const Json& present = base::json::Map(set.json(), {"status"});
  Json changes = Json::object();
  for (const auto& [field, value] : status.items()) {
    const auto it = present.find(field);
    if (it == present.end() || *it != value) changes[field] = value;
  }
  if (changes.empty()) return base::OkStatus();
  const Status written =
      Patch(context_.client, sets_, set,
            {{"metadata", {{"uid", set.uid()}}}, {"status", std::move(changes)}}, "status")
          .status();
  return written.code() == base::StatusCode::kNotFound ? base::OkStatus() : written;
}

}  // namespace berth::controllers::daemonset
