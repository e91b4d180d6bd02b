// What the node agent must remember of a pod that it took on: <data>/node/pods/<uid>.json.
//
// A record is durable before the first thing of the pod exists on the node, and goes after the last
// is gone. It holds the pod without the values of its environment, which may be secret; what
// tear-down needs is there: names, grace period, preStop hooks. Thread-safe for different pods.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::node {

struct PodRecord {
  std::shared_ptr<const api::Pod> pod;
  // A sandbox may exist in the runtime: written before the first RunPodSandbox.
  bool sandbox_possible = false;
  // The phase in which the pod ended for good ("Succeeded", "Failed"), empty before; with the
  // reason and message of its status. It never starts again.
  std::string ended_phase;
  std::string ended_reason;
  std::string ended_message;
};

class PodRecords {
 public:
  // `folder` is made when missing.
  static base::StatusOr<std::unique_ptr<PodRecords>> Open(std::string folder);

  // All records by uid. One that cannot be read is logged and left out; its pod is found through
  // its sandbox and its volumes.
  base::StatusOr<std::map<std::string, PodRecord>> Load() const;

  base::Status Write(const PodRecord& record) const;
  base::Status Remove(const std::string& uid) const;

 private:
  explicit PodRecords(std::string folder) : folder_(std::move(folder)) {}
  std::string Path(const std::string& uid) const;

  const std::string folder_;
};

}  // namespace berth::node
